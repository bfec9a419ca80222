package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// grace is how long processes may take to end when they are told to.
const grace = 5 * time.Second

// Line is one of those that a peer prints.
type Line struct {
	Item
	Environment map[string]string `json:"environment"`
	Us          float64           `json:"us"`
	P50         float64           `json:"p50_us"`
	P99         float64           `json:"p99_us"`
	CPU         float64           `json:"cpu_percent"`
	Wakeup      float64           `json:"wakeup_us"`
	RSS         float64           `json:"rss_bytes"`
	Sender      float64           `json:"sender_bytes"`
	Receiver    float64           `json:"receiver_bytes"`
}

// parseLines reads what a peer has printed. Launchers may add lines of their own.
func parseLines(out []byte) (lines []Line, err error) {
	for text := range bytes.Lines(out) {
		text = bytes.TrimSpace(text)
		if !bytes.HasPrefix(text, []byte("{")) {
			continue
		}
		var l Line
		if err := json.Unmarshal(text, &l); err != nil {
			return lines, fmt.Errorf("%s: %w", text, err)
		}
		lines = append(lines, l)
	}
	return lines, nil
}

// job is one run of a peer.
type job struct {
	peer    *Peer
	items   []Item
	ms      int
	waitMs  int
	timeout time.Duration
}

// run returns what the peer has printed; also what came before a failure.
func (j job) run(ctx context.Context) ([]Line, *failure) {
	ctx, cancel := context.WithTimeout(ctx, j.timeout)
	defer cancel()
	dir, err := os.MkdirTemp("", "compare")
	if err != nil {
		return nil, &failure{"mktemp -d", err.Error()}
	}
	defer os.RemoveAll(dir)
	env := append([]string{
		"COMPARE_MS=" + strconv.Itoa(j.ms), "COMPARE_WAIT_MS=" + strconv.Itoa(j.waitMs), "COMPARE_DIR=" + dir,
	}, j.peer.env...)
	words := append([]string{}, j.peer.program...)
	for _, i := range j.items {
		words = append(words, i.String())
	}
	commands := j.commands(ctx, env, words)
	var out bytes.Buffer
	diagnostics := make([]bytes.Buffer, len(commands))
	for i, c := range commands {
		c.Stderr = &diagnostics[i]
	}
	commands[0].Stdout = &out
	ended := make(chan error, len(commands))
	var started []*exec.Cmd
	for _, c := range commands {
		if err = c.Start(); err != nil {
			break
		}
		started = append(started, c)
	}
	for _, c := range started {
		go func() { ended <- c.Wait() }()
	}
	if err != nil {
		cancel()
	}
	for range started {
		if e := <-ended; e != nil && err == nil {
			err = e
			cancel() // the other process would wait for ever
		}
	}
	lines, bad := parseLines(out.Bytes())
	if err == nil {
		err = bad
	}
	if err == nil && len(lines) != len(j.items)+1 {
		err = fmt.Errorf("%d results of %d", len(lines)-1, len(j.items))
	}
	if err == nil {
		return lines, nil
	}
	if ctx.Err() == context.DeadlineExceeded {
		err = fmt.Errorf("not done after %v", j.timeout)
	}
	var said []byte
	for i := range diagnostics {
		said = append(said, diagnostics[i].Bytes()...)
	}
	return lines, &failure{commandLine(env, words), lastLines(said, err)}
}

// commands are those that the job starts: a launcher, or each process on a core of its own.
func (j job) commands(ctx context.Context, env, words []string) []*exec.Cmd {
	var commands []*exec.Cmd
	processes := 2
	if j.peer.launched {
		processes = 1
	}
	cores := ownCores()
	for rank := range processes {
		argv := words
		if !j.peer.launched && len(cores) > 1 {
			argv = append([]string{"taskset", "-c", strconv.Itoa(cores[rank])}, words...)
		}
		c := exec.CommandContext(ctx, argv[0], argv[1:]...)
		c.Env = append(append(os.Environ(), env...), "COMPARE_RANK="+strconv.Itoa(rank))
		c.Stdin = strings.NewReader("") // a pipe: MPICH 4.0 does not see the end of /dev/null
		c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGTERM) }
		c.WaitDelay = grace
		commands = append(commands, c)
	}
	return commands
}

// ownCores returns two processors that this process may use and that are not of the
// same core, or nothing where there are no two, or no taskset.
func ownCores() (cores []int) {
	var set unix.CPUSet
	if _, err := exec.LookPath("taskset"); err != nil || unix.SchedGetaffinity(0, &set) != nil {
		return nil
	}
	seen := map[string]bool{}
	for cpu := 0; cpu < 1024 && len(cores) < 2; cpu++ {
		if !set.IsSet(cpu) {
			continue
		}
		siblings, err := os.ReadFile(filepath.Join("/sys/devices/system/cpu", fmt.Sprintf("cpu%d", cpu), "topology/thread_siblings_list"))
		core := string(siblings)
		if err != nil {
			core = strconv.Itoa(cpu)
		}
		if !seen[core] {
			seen[core] = true
			cores = append(cores, cpu)
		}
	}
	if len(cores) < 2 {
		return nil
	}
	return cores
}

// commandLine is what the report shows: the variables and the program, without the items.
func (j job) commandLine() string {
	words := append(slices.Clone(j.peer.program), "KIND:SIZE:FRAMES:N", "...")
	env := append(slices.Clone(j.peer.env), "COMPARE_MS="+strconv.Itoa(j.ms), "COMPARE_WAIT_MS="+strconv.Itoa(j.waitMs))
	if j.peer.launched {
		return commandLine(env, words)
	}
	env = append(env, "COMPARE_DIR=...")
	var both []string
	cores := ownCores()
	for rank := range 2 {
		argv := words
		if len(cores) > 1 {
			argv = append([]string{"taskset", "-c", strconv.Itoa(cores[rank])}, words...)
		}
		both = append(both, commandLine(append(env, "COMPARE_RANK="+strconv.Itoa(rank)), argv))
	}
	return strings.Join(both, " &\n    ")
}
