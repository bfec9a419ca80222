package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// processes are process ids, each with the time at which it started: an id may
// be given to another process later.
type processes map[int]string

// descendants returns a process and all that it has started, as far as their
// parents still run.
func descendants(root int) processes {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	parents, starts := map[int]int{}, map[int]string{}
	for _, file := range stats {
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if parent, start, ok := readStat(pid); ok {
			parents[pid], starts[pid] = parent, start
		}
	}
	family := processes{root: starts[root]}
	for grown := true; grown; {
		grown = false
		for pid, parent := range parents {
			if family[pid] == "" && family[parent] != "" {
				family[pid], grown = starts[pid], true
			}
		}
	}
	return family
}

// alive returns those that still run.
func (p processes) alive() (pids []int) {
	for pid, start := range p {
		if _, now, ok := readStat(pid); ok && now == start {
			pids = append(pids, pid)
		}
	}
	return pids
}

// readStat reads the parent of a process and when it started. A zombie does not
// count.
func readStat(pid int) (parent int, start string, ok bool) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, "", false
	}
	// The name in parentheses may itself contain spaces and parentheses.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 20 || string(fields[0]) == "Z" {
		return 0, "", false
	}
	parent, _ = strconv.Atoi(string(fields[1]))
	return parent, string(fields[19]), true
}
