package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Report is what the JSON file has in it. Names of fields end in their unit.
type Report struct {
	Schema  int       `json:"schema"` // 1; it changes when a field changes its meaning or goes
	Date    string    `json:"date"`   // UTC
	Machine Machine   `json:"machine"`
	Reps    int       `json:"repetitions"`
	Ms      int       `json:"measurement_ms"`
	WaitMs  int       `json:"wait_ms"`
	Quick   bool      `json:"quick,omitempty"`
	Minutes float64   `json:"minutes"`
	Peers   []*Peer   `json:"peers"`
	Gaps    []Gap     `json:"gaps"`
	Results []*Result `json:"results"`
	// Verdicts are made from the results when the report is written.
	Verdicts []Verdict `json:"verdicts"`
}

// Machine is what the figures depend on besides the peers.
type Machine struct {
	CPU    string `json:"cpu"`
	Cores  int    `json:"processors"`
	Memory int64  `json:"memory_bytes"`
	Kernel string `json:"kernel"`
	OS     string `json:"os"`
	Go     string `json:"go"`
	Bound  bool   `json:"bound"` // each process had a core of its own
}

func thisMachine() Machine {
	m := Machine{Cores: runtime.NumCPU(), Go: runtime.Version(), Bound: len(ownCores()) == 2, CPU: "unknown", OS: "unknown"}
	var name unix.Utsname
	if unix.Uname(&name) == nil {
		m.Kernel = unix.ByteSliceToString(name.Sysname[:]) + " " + unix.ByteSliceToString(name.Release[:])
	}
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) == nil {
		m.Memory = int64(info.Totalram) * int64(info.Unit)
	}
	for file, into := range map[string]*string{"/proc/cpuinfo": &m.CPU, "/etc/os-release": &m.OS} {
		text, _ := os.ReadFile(file) // it stays unknown
		for line := range strings.Lines(string(text)) {
			for _, key := range []string{"model name\t: ", "PRETTY_NAME="} {
				if value, ok := strings.CutPrefix(line, key); ok {
					*into = strings.Trim(strings.TrimSpace(value), `"`)
				}
			}
		}
	}
	return m
}

// Result is one item of one peer: a number for each repetition. Times are one-way,
// for each message.
type Result struct {
	Peer string `json:"peer"`
	Item
	Us       []float64 `json:"us,omitempty"` // means of many messages
	P50      []float64 `json:"p50_us,omitempty"`
	P99      []float64 `json:"p99_us,omitempty"`
	CPU      []float64 `json:"cpu_percent,omitempty"`
	Wakeup   []float64 `json:"wakeup_us,omitempty"`
	RSS      []float64 `json:"rss_bytes,omitempty"` // of the receiver, before the message
	Sender   []float64 `json:"sender_bytes,omitempty"`
	Receiver []float64 `json:"receiver_bytes,omitempty"`
}

func (r *Result) add(l Line) {
	keep := func(into *[]float64, value float64) { *into = append(*into, value) }
	switch r.Kind {
	case "wait":
		keep(&r.CPU, l.CPU)
		keep(&r.Wakeup, l.Wakeup)
	case "idle":
		keep(&r.CPU, l.CPU)
	case "memory":
		keep(&r.RSS, l.RSS)
		keep(&r.Sender, l.Sender)
		keep(&r.Receiver, l.Receiver)
	default:
		keep(&r.Us, l.Us)
		if l.P99 > 0 {
			keep(&r.P50, l.P50)
			keep(&r.P99, l.P99)
		}
	}
}

// main is the number by which results are compared; less is better.
func (r *Result) main() []float64 {
	switch r.Kind {
	case "wait", "idle":
		return r.CPU
	case "memory":
		return r.Receiver
	}
	return r.Us
}

// find returns a result, nil if there is none.
func (r *Report) find(peer string, i Item) *Result {
	at := slices.IndexFunc(r.Results, func(x *Result) bool { return x.Peer == peer && x.Item == i })
	if at < 0 {
		return nil
	}
	return r.Results[at]
}

// items are those of a kind that anybody has measured, in their order.
func (r *Report) items(kind string) (items []Item) {
	for _, x := range r.Results {
		if x.Kind == kind && !slices.Contains(items, x.Item) {
			items = append(items, x.Item)
		}
	}
	slices.SortStableFunc(items, func(a, b Item) int {
		return (a.N-b.N)*btoi(kind == "rate") + (a.Size-b.Size)*btoi(kind == "latency" || kind == "throughput")
	})
	return items
}

func btoi(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// write writes the report, its plots and the JSON.
func write(r *Report, dir string) error {
	beside := filepath.Join(dir, "comparison")
	if err := os.MkdirAll(beside, 0o777); err != nil {
		return err
	}
	r.Verdicts = r.verdicts()
	data, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(beside, "report.json"), append(data, '\n'), 0o666); err != nil {
		return err
	}
	plots, err := drawAll(r, beside)
	if err != nil {
		return err
	}
	file := filepath.Join(dir, "comparison.md")
	if err := os.WriteFile(file, []byte(markdown(r, plots)), 0o666); err != nil {
		return err
	}
	say("wrote %s and %s", file, beside)
	return nil
}

// readReport reads the JSON of a report.
func readReport(file string) (*Report, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var r Report
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if r.Schema != 1 {
		return nil, fmt.Errorf("%s: it has schema %d, this program reads 1", file, r.Schema)
	}
	return &r, nil
}
