package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var rows = []row{
	latencyRow{Size: 1, timing: newTiming(10, []float64{2, 3, 4}, []float64{1, 2, 2}), Ratio: 2, MBPerS: 0.33},
	latencyRow{Size: 1024, timing: newTiming(10, []float64{5, 6, 7}, nil)},
}

func reportOf(format string) (*report, *bytes.Buffer) {
	r := newReport(format, "latency", &latencyCmd{}, environment{Version: "1.2.3", MPI: "Some MPI 4.0", GOOS: "linux", GOARCH: "amd64"})
	var out bytes.Buffer
	r.out = bufio.NewWriter(&out)
	return r, &out
}

func write(t *testing.T, format string) string {
	t.Helper()
	r, out := reportOf(format)
	r.begin(0, "a note")
	for _, row := range rows {
		r.row(row)
		r.tick()
	}
	require.NoError(t, r.end())
	return out.String()
}

func TestText(t *testing.T) {
	lines := strings.Split(strings.TrimSpace(write(t, "text")), "\n")
	require.Contains(t, lines, "# a note")
	table := lines[len(lines)-3:]
	require.Equal(t, []string{"#", "size", "us", "min", "p50", "p99", "max", "C_us", "ratio", "MB/s"}, strings.Fields(table[0]))
	require.Equal(t, []string{"1", "3.00", "0.00", "0.00", "0.00", "0.00", "2.00", "2.00", "0.33"}, strings.Fields(table[1]))
	require.Equal(t, "-", strings.Fields(table[2])[6], "no C")
	require.Len(t, table[1], len(table[0]), "columns are aligned")
	for _, line := range lines[:len(lines)-2] {
		require.True(t, strings.HasPrefix(line, "#"), line)
	}
}

func TestJSON(t *testing.T) {
	var document struct {
		Schema      int
		Mode        string
		Environment map[string]any
		Options     map[string]any
		Notes       []string
		Rows        []map[string]any
	}
	require.NoError(t, json.Unmarshal([]byte(write(t, "json")), &document))
	require.Equal(t, 1, document.Schema)
	require.Equal(t, "latency", document.Mode)
	require.Equal(t, "Some MPI 4.0", document.Environment["mpi"])
	require.Contains(t, document.Options, "rounds")
	require.Equal(t, []string{"a note"}, document.Notes)
	require.Equal(t, 3.0, document.Rows[0]["us"])
	require.Equal(t, 2.0, document.Rows[0]["c_us"])
	require.Equal(t, []any{2.0, 3.0, 4.0}, document.Rows[0]["rounds_us"])
	require.NotContains(t, document.Rows[1], "c_us")
	require.NotContains(t, document.Rows[1], "ratio")
}

func TestBench(t *testing.T) {
	out := write(t, "bench")
	require.Contains(t, out, "goos: linux\ngoarch: amd64\npkg: github.com/mpi4go/mpi4go/cmd/pingpong\n")
	require.Contains(t, out, "\nmpi: Some MPI 4.0\n")
	require.Contains(t, out, "\nBenchmarkPingPong/mode=latency/size=1024 10 5000 ns/op 204.8 MB/s\n")
	require.Contains(t, out, "\nBenchmarkPingPong/mode=latency/size=1 10 2000 ns/op 0.5 MB/s 1000 C-ns/op\n")
	require.Equal(t, 6, strings.Count(out, "BenchmarkPingPong/"), "a line for each round")
}

func TestNoReport(t *testing.T) {
	var r *report
	r.begin(3, "a note")
	r.plot("x.svg", "message size (bytes)", "y")
	r.row(rows[0])
	r.tick()
	r.flush()
	require.NoError(t, r.end())
}

func TestFullDisk(t *testing.T) {
	r, _ := reportOf("text")
	r.out = bufio.NewWriter(failing{})
	r.begin(0)
	require.ErrorIs(t, r.end(), errFull)
}

var errFull = errors.New("no space left")

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errFull }

func TestPlot(t *testing.T) {
	for extension, magic := range map[string]string{".svg": "<?xml", ".png": "\x89PNG"} {
		file := filepath.Join(t.TempDir(), "latency"+extension)
		r, _ := reportOf("json")
		r.plot(picture(file), "message size (bytes)", "one-way latency (us)")
		r.begin(0)
		for _, row := range rows {
			r.row(row)
		}
		require.NoError(t, r.end())
		image, err := os.ReadFile(file)
		require.NoError(t, err)
		require.True(t, bytes.HasPrefix(image, []byte(magic)))
	}

	r, _ := reportOf("json")
	for _, frames := range []int{2, 16} {
		for _, size := range []int{0, 64, 128} {
			r.row(multiRow{Frames: frames, Size: size, timedPath: timedPath{timing: newTiming(1, []float64{1}, []float64{2})}})
		}
	}
	var names []any
	for i, v := range r.lines() {
		if i%2 == 0 {
			names = append(names, v)
		} else {
			require.Len(t, v, 2)
		}
	}
	require.Equal(t, []any{"mpi4go 1.2.3, 2 frames", "C, Some MPI 4.0, 2 frames", "mpi4go 1.2.3, 16 frames", "C, Some MPI 4.0, 16 frames"}, names)

	r, _ = reportOf("json")
	r.plot("empty.svg", "message size (bytes)", "y")
	r.row(latencyRow{timing: newTiming(1, []float64{1}, nil)})
	require.ErrorContains(t, r.end(), "1 byte or more")
}
