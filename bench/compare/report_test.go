package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// testReport has coro and C over one MPI, UCX-Py, and TCP.
func testReport() *Report {
	r := &Report{Schema: 1, Reps: 3, Ms: 30, Peers: []*Peer{
		{Name: "c@openmpi", Way: "c", MPI: "openmpi"},
		{Name: "coro@openmpi", Way: "coro", MPI: "openmpi", Ours: true, Title: "mpi4go", Command: "mpirun gopeer"},
		{Name: "c@mpich", Way: "c", MPI: "mpich"},
		{Name: "ucx-py-polling", Way: "ucx-py-polling"},
		{Name: "tcp", Way: "tcp"},
	}, Gaps: []Gap{{"ucxx", "pip install ucxx-cu12", "no such host"}}}
	add := func(peer string, i Item, us ...float64) {
		r.Results = append(r.Results, &Result{Peer: peer, Item: i, Us: us, P99: us})
	}
	one, large := Item{"latency", 1, 1, 1}, Item{"throughput", 2 * mib, 1, 8}
	add("c@openmpi", one, 0.2, 0.2, 0.2)
	add("coro@openmpi", one, 0.3, 0.28, 0.32)
	add("c@mpich", one, 0.01, 0.01, 0.01)
	add("ucx-py-polling", one, 30, 31, 29)
	add("tcp", one, 0.2, 10, 10)
	add("c@openmpi", large, 200, 200, 200)
	add("coro@openmpi", large, 210, 205, 220)
	add("ucx-py-polling", large, 420, 410, 440)
	add("tcp", large, 800, 810, 820)
	add("c@openmpi", Item{"latency", 64, 1, 1}, 0.2, 0.2, 0.2)
	add("coro@openmpi", Item{"latency", 64, 1, 1}, 0.2, 0.2, 0.2)
	r.Results = append(r.Results,
		&Result{Peer: "coro@openmpi", Item: Item{"wait", 1, 1, 1}, CPU: []float64{3}, Wakeup: []float64{250}},
		&Result{Peer: "coro@openmpi", Item: Item{"memory", mib, 64, 1}, RSS: []float64{20 * mib}, Sender: []float64{mib}, Receiver: []float64{65 * mib}})
	return r
}

func TestVerdictOf(t *testing.T) {
	require.Equal(t, "met", verdictOf(spread{6, 9}, 7, 6, 0))
	require.Equal(t, "met, not in every repetition", verdictOf(spread{5, 9}, 7, 6, 100))
	require.Equal(t, "MISSED", verdictOf(spread{2, 9}, 5, 6, 0))
	require.Equal(t, "MISSED", verdictOf(spread{2, 9}, 5, 6, 6.5))
	require.Equal(t, "out of reach here: C has 5.50 x", verdictOf(spread{2, 9}, 5, 6, 5.5))
	require.Equal(t, "ahead", verdictOf(spread{1.1, 2}, 1.5, 0, 0))
	require.Equal(t, "even", verdictOf(spread{0.9, 2}, 1.5, 0, 0))
	require.Equal(t, "BEHIND", verdictOf(spread{0.5, 0.9}, 0.7, 0, 0))
}

func TestVerdicts(t *testing.T) {
	r := testReport()
	verdicts := r.verdicts()
	require.Len(t, verdicts, 4)
	require.Equal(t, "latency of 1 B >= 6 x", verdicts[0].Claim)
	require.Equal(t, "met", verdicts[0].Word)
	require.InDelta(t, 100, verdicts[0].Times, 1)
	require.Equal(t, "even", verdicts[1].Word, "TCP was faster in one repetition")
	require.Equal(t, "throughput, 2 MiB >= 4 x", verdicts[2].Claim)
	require.Equal(t, "out of reach here: C has 2.10 x", verdicts[2].Word)
	require.InDelta(t, 0.95, verdicts[2].OursShare, 0.01)
	require.InDelta(t, 0.48, verdicts[2].PeerShare, 0.01)
	require.Equal(t, "ahead", verdicts[3].Word)
	require.Contains(t, r.missing(), "ucxx-polling")
	require.NotContains(t, r.missing(), "tcp")
}

func TestLosses(t *testing.T) {
	losses := testReport().losses()
	require.Len(t, losses, 1, "the throughput is within 1.3 x C, and TCP was not better in every repetition")
	require.Equal(t, "latency, 1 B", losses[0].What)
	require.Equal(t, "coro@openmpi: 0.300 us", losses[0].Ours)
	require.Equal(t, "c@openmpi 0.200 us (1.50 x)", losses[0].Behind, "C over another MPI does not count")
}

func TestWrite(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, write(testReport(), dir))
	text, err := os.ReadFile(filepath.Join(dir, "comparison.md"))
	require.NoError(t, err)
	for _, want := range []string{
		"| latency of 1 B >= 6 x | ucx-py-polling | coro@openmpi | 100 x", "out of reach here", "| latency, 1 B | coro@openmpi: 0.300 us |",
		"| coro@openmpi | 0.300 (0.280 to 0.320) | 0.200 (0.200 to 0.200) |", "    mpirun gopeer", "$ pip install ucxx-cu12", "no such host",
		"## CPU while waiting and while idle, % of a core", "| coro@openmpi | 3.00; 250 |", "| coro@openmpi | 20.0 | 1.00 | 65.0 |",
		"![One-way latency against size](comparison/latency.svg)",
	} {
		require.Contains(t, string(text), want)
	}
	require.NotContains(t, string(text), "%!")
	svg, err := os.ReadFile(filepath.Join(dir, "comparison", "latency-to-c.svg"))
	require.NoError(t, err)
	require.Contains(t, string(svg), "coro@openmpi")
	again, err := readReport(filepath.Join(dir, "comparison", "report.json"))
	require.NoError(t, err)
	require.Equal(t, testReport().Results, again.Results)
	require.Len(t, again.Verdicts, 4)
}

func TestReadReport(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.json")
	_, err := readReport(file)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.NoError(t, os.WriteFile(file, []byte("{"), 0o666))
	_, err = readReport(file)
	require.Error(t, err)
	require.NoError(t, os.WriteFile(file, []byte(`{"schema":2}`), 0o666))
	_, err = readReport(file)
	require.ErrorContains(t, err, "schema 2")
}

func TestCheck(t *testing.T) {
	older, newer := testReport(), testReport()
	newer.find("coro@openmpi", Item{"latency", 1, 1, 1}).Us = []float64{0.4, 0.41, 0.42}                                 // apart from 0.28 to 0.32
	newer.find("coro@openmpi", Item{"throughput", 2 * mib, 1, 8}).Us = []float64{200, 230, 240}                          // overlaps 205 to 220
	newer.find("coro@openmpi", Item{"latency", 64, 1, 1}).Us = []float64{0.1, 0.1, 0.1}                                  // faster
	newer.find("tcp", Item{"latency", 1, 1, 1}).Us = []float64{100, 100, 100}                                            // not ours
	older.Results = append(older.Results, &Result{Peer: "coro@openmpi", Item: Item{"idle", 1, 1, 1}, CPU: []float64{1}}) // gone
	var out bytes.Buffer
	require.NoError(t, printChanges(&out, older, newer, 5, false))
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	require.Len(t, lines, 5, out.String())
	require.Regexp(t, `^slower +1\.37 x +coro@openmpi +latency, 1 B +0\.300 us -> 0\.410 us`, lines[0])
	require.Regexp(t, `^slower\? +1\.10 x +coro@openmpi +throughput, 2 MiB`, lines[1])
	require.Regexp(t, `^faster +0\.50 x`, lines[2])
	require.Equal(t, "not in the new report: coro@openmpi: CPU while idle", lines[3])
	require.Equal(t, "5 compared: 1 slower, 1 faster; 1 more slower and 0 faster with repetitions that overlap (?)", lines[4])

	out.Reset()
	require.NoError(t, printChanges(&out, older, newer, 5, true))
	require.Contains(t, out.String(), "tcp")
	out.Reset()
	require.NoError(t, printChanges(&out, older, older, 5, true))
	require.Contains(t, out.String(), "0 slower, 0 faster; 0 more")
}
