package mpitest

import (
	"fmt"
	"slices"
	"strings"
)

// report is what the output of one rank's tests says.
type report struct {
	outcomes []string // "PASS TestName" and the like, in order
	pending  []string // the output since the last test ended
	failures []string // the output of the tests that failed
}

// marker begins the lines by which package testing itself reports, with
// -test.v=test2json.
const marker = "\x16"

// add takes one line and returns what of it is worth showing.
func (r *report) add(line string) (show []string) {
	for i, part := range strings.Split(line, marker) {
		if part == "" && (i == 0 || strings.HasSuffix(line, marker)) {
			continue
		}
		if i > 0 {
			r.framing(part)
			if strings.HasPrefix(part, "=== NAME") {
				continue
			}
		} else {
			r.pending = append(r.pending, part)
		}
		show = append(show, part)
	}
	if line == "" {
		r.pending = append(r.pending, "")
		return []string{""}
	}
	return show
}

// framing takes a line of package testing, such as "--- PASS: TestName (0.01s)".
func (r *report) framing(line string) {
	if !strings.HasPrefix(strings.TrimSpace(line), "=== ") {
		r.pending = append(r.pending, line)
	}
	verdict, rest, found := strings.Cut(line, ": ")
	verdict, isVerdict := strings.CutPrefix(verdict, "--- ")
	if !found || !isVerdict { // that of a subtest is indented
		return
	}
	name, _, _ := strings.Cut(rest, " ")
	r.outcomes = append(r.outcomes, verdict+" "+name)
	if verdict == "FAIL" {
		r.failures = append(r.failures, r.pending...)
	}
	r.pending = nil
}

// count is the number of tests with an outcome.
func (r *report) count(verdict string) int { return len(r.names(verdict)) }

func (r *report) names(verdict string) (names []string) {
	for _, outcome := range r.outcomes {
		if name, ok := strings.CutPrefix(outcome, verdict+" "); ok {
			names = append(names, name)
		}
	}
	return names
}

// judge compares the ranks of a launch and returns what is wrong, a line each.
func judge(p *processes, reports map[int]*report, ranks int) (wrong []string) {
	add := func(format string, a ...any) { wrong = append(wrong, fmt.Sprintf(format, a...)) }
	if p.timedOut {
		add("timed out after %v", p.timeout)
	}
	for rank := range ranks {
		peer, r := p.peers[rank], reports[rank]
		switch {
		case peer == nil:
			add("rank %d never began", rank)
			continue
		case peer.code < 0 && !p.timedOut:
			add("rank %d died", rank)
		case peer.code > 0 && r.count("FAIL") == 0:
			add("rank %d: exit code %d", rank, peer.code)
		}
		if failed := r.names("FAIL"); len(failed) > 0 {
			add("rank %d: %d of %d tests failed: %s", rank, len(failed), len(r.outcomes), strings.Join(failed, ", "))
		}
	}
	if len(wrong) > 0 {
		return wrong
	}
	for rank := 1; rank < ranks; rank++ {
		if !slices.Equal(reports[rank].outcomes, reports[0].outcomes) {
			add("rank %d ran other tests than rank 0: %d passed and %d were skipped, and on rank 0 %d and %d", rank,
				reports[rank].count("PASS"), reports[rank].count("SKIP"), reports[0].count("PASS"), reports[0].count("SKIP"))
		}
	}
	if p.code != 0 && len(wrong) == 0 && p.hung() == 0 {
		add("the launcher returned %d", p.code)
	}
	return wrong
}
