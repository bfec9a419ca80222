// Bench measures the figures that this library promises, prints them in a table
// with verdicts, and exits with 1 if a "must" is missed. It runs pingpong under
// each MPI that is installed, so nothing else should run on the machine.
//
//	go run ./bench            everything, about ten minutes
//	go run ./bench latency    only the rows whose name contains "latency"
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"text/tabwriter"

	"github.com/alecthomas/kong"
)

var options struct {
	MPI   []string `default:"openmpi,mpich" help:"Under which MPIs (${default})."`
	Only  []string `arg:"" optional:"" help:"Only rows whose name contains one of these."`
	Venv  string   `default:".cache/venv" help:"The Python environment with mpi4py that scripts/setup bench makes (${default})."`
	Links string   `default:".cache/lib" help:"Where scripts/setup bench links MPICH's library as mpi4py looks for it (${default})."`
}

func main() {
	kong.Parse(&options, kong.Name("bench"), kong.Description("Measures the figures that mpi4go promises, beside C, and says which hold."))
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run() error {
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	pingpong := filepath.Join(dir, "pingpong")
	build := exec.Command("go", "build", "-o", pingpong, "./cmd/pingpong")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("building pingpong (run this in the project's folder): %w", err)
	}
	missed := 0
	for _, mpi := range options.MPI {
		if _, err := exec.LookPath("mpirun." + mpi); err != nil {
			fmt.Printf("%s: not installed, not measured\n\n", mpi)
			continue
		}
		table := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', 0)
		for _, f := range figures {
			if !wanted(f.name) {
				continue
			}
			m := &measurement{mpi: mpi, pingpong: pingpong}
			results, err := f.measure(m)
			if err != nil {
				return fmt.Errorf("%s, %s: %w", mpi, f.name, err)
			}
			header(mpi, m.environment)
			for _, r := range results {
				verdict := r.verdict()
				if verdict == "MISSED" {
					missed++
				}
				fmt.Fprintf(table, "%s\t%s\t%s\tmust %s\taim %s\t%s\n", f.name, r.what, r.value, r.must, r.aim, verdict)
			}
			table.Flush()
		}
		fmt.Println()
	}
	if missed > 0 {
		return fmt.Errorf("%d figures missed", missed)
	}
	return nil
}

func wanted(name string) bool {
	if len(options.Only) == 0 {
		return true
	}
	for _, only := range options.Only {
		if strings.Contains(name, only) {
			return true
		}
	}
	return false
}

var described = map[string]bool{}

// header says once what was measured.
func header(mpi string, e environment) {
	if described[mpi] || e.MPI == "" {
		return
	}
	described[mpi] = true
	fmt.Printf("# %s, transport: %s, binding: %s, GOMAXPROCS: %s\n# %s, %d cores, %s/%s, %s\n", e.MPI, e.Transport, e.Binding, e.GOMAXPROCS,
		e.CPU, e.Cores, runtime.GOOS, runtime.GOARCH, e.Go)
}

// measurement runs pingpong under one MPI.
type measurement struct {
	mpi, pingpong string
	environment   environment
}

type environment struct {
	MPI        string `json:"mpi"`
	Transport  string `json:"transport"`
	Binding    string `json:"binding"`
	GOMAXPROCS string `json:"gomaxprocs"`
	CPU        string `json:"cpu"`
	Cores      int    `json:"cores"`
	Go         string `json:"go"`
}

// row has the fields of all of pingpong's rows that are looked at here.
type row struct {
	Size         int     `json:"size"`
	Frames       int     `json:"frames"`
	OneRatio     float64 `json:"one_ratio"`
	SinglesUs    float64 `json:"singles_us"`
	SinglesRatio float64 `json:"singles_ratio"`
	AllocBytes   float64 `json:"alloc_bytes_per_op"`
	Extra        struct {
		Ours float64 `json:"ours"`
	} `json:"extra_bytes"`
	Us           float64 `json:"us"`
	CUs          float64 `json:"c_us"`
	P50Us        float64 `json:"p50_us"`
	Ratio        float64 `json:"ratio"`
	Allocs       float64 `json:"allocs_per_op"`
	MessagesPerS float64 `json:"messages_per_s"`
	Goroutines   int     `json:"goroutines"`
	Order        string  `json:"order"`
	Threads      int     `json:"threads"`
	RSS          float64 `json:"rss_bytes_per_goroutine"`
	GOMAXPROCS   int     `json:"gomaxprocs"`
	State        string  `json:"state"`
	CPUPercent   float64 `json:"cpu_percent"`
	WakeupP50Us  float64 `json:"wakeup_p50_us"`
	WakeupP99Us  float64 `json:"wakeup_p99_us"`
	Busy         bool    `json:"busy"`
	Transport    string  `json:"transport"`
	ConnectP50Us float64 `json:"connect_p50_us"`
	ConnectP99Us float64 `json:"connect_p99_us"`
	OneWayUs     float64 `json:"one_way_us"`

	ConnRSS [2]float64 `json:"rss_bytes_per_connection"`
}

// rows runs a mode of pingpong.
func (m *measurement) rows(args ...string) ([]row, error) {
	args = append([]string{"--mpi", m.mpi, "--format", "json"}, args...)
	command := exec.Command(m.pingpong, args...)
	var out, diagnostics bytes.Buffer
	command.Stdout, command.Stderr = &out, &diagnostics
	if err := command.Run(); err != nil {
		return nil, fmt.Errorf("pingpong %s: %w\n%s", strings.Join(args, " "), err, diagnostics.String())
	}
	var report struct {
		Environment environment
		Rows        []row
	}
	if err := json.Unmarshal(out.Bytes(), &report); err != nil {
		return nil, fmt.Errorf("pingpong %s: %w", strings.Join(args, " "), err)
	}
	m.environment = report.Environment
	return report.Rows, nil
}
