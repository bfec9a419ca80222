package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

// report writes the rows of one mode. A nil report, on the ranks that do not
// print, takes and drops everything.
//
// With --format json it is one object:
//
//	schema       1; it changes when a field changes its meaning or goes
//	mode         the subcommand
//	environment  see the type environment
//	options      those of the subcommand, by their JSON names
//	notes        what was measured how, in words
//	rows         a list of objects, whose fields are those of the row types:
//	             latencyRow, bandwidthRow, rateRow, coroutinesRow, idleRow,
//	             waitersRow, busyRow, allpairsRow, most with those of timing
//
// Names end in their unit: _us microseconds, _s seconds, _per_s, _percent,
// _bytes. Fields of C (c_us, c_rounds_us, c_mb_per_s, c_messages_per_s) and
// ratio are absent where the C loop did not run, gompi_us where gompi did not. The lists rounds_us and
// c_rounds_us are in the order of the rounds, us and c_us their medians.
type report struct {
	out     *bufio.Writer
	format  string
	bar     *bar
	heading bool // the table has its head
	picture string
	across  string // the axes of the picture
	up      string
	document
}

// document is the report in JSON.
type document struct {
	Schema      int         `json:"schema"`
	Mode        string      `json:"mode"`
	Environment environment `json:"environment"`
	Options     mode        `json:"options"`
	Notes       []string    `json:"notes"`
	Rows        []row       `json:"rows"`
	Plans       string      `json:"plans,omitempty"`
}

// row is one line of the result.
type row interface {
	columns() []column
	bench() []benchLine
}

// column is one field of a row in the text table.
type column struct {
	head, format string
	value        any
}

// optional is a column that has no value if C was not measured.
func optional(head, format string, value float64) column {
	if value == 0 {
		return column{head, "%s", "-"}
	}
	return column{head, format, value}
}

// benchLine is a line of the Go benchmark format.
type benchLine struct {
	key        string // name=value, separated by slashes
	iterations int
	values     []benchValue
}

type benchValue struct {
	value float64
	unit  string
}

func newReport(format, name string, m mode, e environment) *report {
	return &report{
		out:      bufio.NewWriter(os.Stdout),
		format:   format,
		document: document{Schema: 1, Mode: name, Environment: e, Options: m, Notes: []string{}, Rows: []row{}},
	}
}

// begin writes the head. There will be so many ticks at most.
func (r *report) begin(ticks int, notes ...string) {
	if r == nil {
		return
	}
	r.bar = newBar(ticks)
	r.Notes = append(r.Notes, notes...)
	e := r.Environment
	switch r.format {
	case "text":
		fmt.Fprintf(r.out, "# pingpong %s\n", r.Mode)
		for _, line := range append(e.lines(), notes...) {
			fmt.Fprintf(r.out, "# %s\n", line)
		}
	case "bench":
		fmt.Fprintf(r.out, "goos: %s\ngoarch: %s\npkg: github.com/mpi4go/mpi4go/cmd/pingpong\ncpu: %s\n", e.GOOS, e.GOARCH, e.CPU)
		fmt.Fprintf(r.out, "mpi4go: %s\nmpi: %s\ntransport: %s\nranks: %d\n", e.Version, e.MPI, e.Transport, e.Ranks)
		fmt.Fprintf(r.out, "Unit MB/s better=higher\nUnit messages/s better=higher\n")
	}
	r.shown()
}

// row writes a row, or keeps it until the end.
func (r *report) row(row row) {
	if r == nil {
		return
	}
	r.Rows = append(r.Rows, row)
	switch r.format {
	case "text":
		r.table(row.columns())
	case "bench":
		for _, line := range row.bench() {
			fmt.Fprintf(r.out, "BenchmarkPingPong/mode=%s/%s %d", r.Mode, line.key, line.iterations)
			for _, v := range line.values {
				fmt.Fprintf(r.out, " %.6g %s", v.value, v.unit)
			}
			fmt.Fprintln(r.out)
		}
	}
	r.shown()
}

// table writes a line of the table, the first time after its head.
func (r *report) table(columns []column) {
	var head, line strings.Builder
	for i, c := range columns {
		width := max(len(c.head), 9) + 1
		if i == 0 {
			fmt.Fprintf(&head, "%-*s", width, "# "+c.head)
			fmt.Fprintf(&line, "%-*s", width, fmt.Sprintf(c.format, c.value))
			continue
		}
		fmt.Fprintf(&head, " %*s", width, c.head)
		fmt.Fprintf(&line, " %*s", width, fmt.Sprintf(c.format, c.value))
	}
	if !r.heading {
		fmt.Fprintln(r.out, head.String())
		r.heading = true
	}
	fmt.Fprintln(r.out, line.String())
}

// shown lets the user see what there is, unless the bar is in the place.
func (r *report) shown() {
	if r.bar == nil {
		r.flush()
	}
}

// tick says that one pass of those announced is over.
func (r *report) tick() {
	if r != nil {
		r.bar.add()
	}
}

// end completes the report.
func (r *report) end() error {
	if r == nil {
		return nil
	}
	r.bar.finish()
	if r.format == "json" {
		encoder := json.NewEncoder(r.out)
		encoder.SetIndent("", "  ")
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(r.document); err != nil {
			return err
		}
	}
	if err := r.out.Flush(); err != nil {
		return err
	}
	return r.draw()
}

// flush writes out what there is when the report ends early.
func (r *report) flush() {
	if r != nil {
		_ = r.out.Flush() // a closed standard output shows at the end
	}
}

// roundsNote says how rounds were measured.
func roundsNote(rounds positive) string {
	return fmt.Sprintf("medians of %d rounds; warm-up excluded", rounds)
}

// turnsNote says how rounds were measured in which several things are compared.
func turnsNote(rounds positive) string {
	return roundsNote(rounds) + "; each round measures ours and then C, which may have two speeds on a virtual machine"
}
