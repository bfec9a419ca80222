package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"

	"github.com/mpi4go/mpi4go/internal/wire"
)

type tuneCmd struct {
	Ranks   rankPair `json:"ranks" default:"0,1" placeholder:"A,B" help:"The two ranks (${default}); the others sleep."`
	Rounds  positive `json:"rounds" default:"7" placeholder:"N" help:"Rounds of jobs, one job for each plan; 5 or more (${default})."`
	Sizes   sizes    `json:"sizes" default:"64:4M" placeholder:"SIZES" help:"Bytes of each frame (${default})."`
	Frames  sizes    `json:"frames" default:"2,16,64" placeholder:"N,..." help:"Frames of a message (${default})."`
	Largest size     `json:"largest" default:"64M" placeholder:"BYTES" help:"Leave out messages of more bytes (${default})."`
}

// Validate refuses what would not tell a gain from noise.
func (c *tuneCmd) Validate() error {
	if c.Rounds < 5 {
		return errors.New("--rounds: 5 or more are needed to tell a gain from noise")
	}
	return nil
}

func (c *tuneCmd) ranksNeeded() int { return max(c.Ranks[0], c.Ranks[1]) + 1 }

// mostInline is the longest message that is tried inline: copying more of it never
// pays, and there is Config.MaxHeader.
const mostInline = 4 << 20

// tuneRow is messages of one shape.
type tuneRow struct {
	Frames     int     `json:"frames"`
	Size       int     `json:"size"`
	InlineUs   float64 `json:"inline_us,omitempty"`
	DatatypeUs float64 `json:"datatype_us"`
	RequestUs  float64 `json:"request_us"`
	InForce    string  `json:"in_force"` // the plan of its frames
	Tuned      string  `json:"tuned"`    // likewise

	// Measured again, if there is a plan to change.
	InForceUs       float64   `json:"in_force_us,omitempty"`
	TunedUs         float64   `json:"tuned_us,omitempty"`
	InForceRoundsUs []float64 `json:"in_force_rounds_us,omitempty"`
	TunedRoundsUs   []float64 `json:"tuned_rounds_us,omitempty"`
	Ratio           float64   `json:"ratio,omitempty"` // tuned / in force
	Verdict         string    `json:"verdict"`
}

func (r tuneRow) columns() []column {
	return []column{
		{"frames", "%d", r.Frames},
		{"size", "%d", r.Size},
		optional("inline", "%.2f", r.InlineUs),
		{"datatype", "%.2f", r.DatatypeUs},
		{"request", "%.2f", r.RequestUs},
		{"in_force", "%s", r.InForce},
		{"tuned", "%s", r.Tuned},
		optional("in_force_us", "%.2f", r.InForceUs),
		optional("tuned_us", "%.2f", r.TunedUs),
		optional("ratio", "%.2f", r.Ratio),
		{"verdict", "%s", r.Verdict},
	}
}

func (r tuneRow) bench() []benchLine {
	lines := make([]benchLine, len(r.TunedRoundsUs))
	for i, us := range r.TunedRoundsUs {
		lines[i] = benchLine{fmt.Sprintf("frames=%d/size=%d", r.Frames, r.Size), 1, []benchValue{{us * 1e3, "ns/op"}, {r.InForceRoundsUs[i] * 1e3, "in-force-ns/op"}}}
	}
	return lines
}

// multiReport is what is read of the JSON of pingpong multi.
type multiReport struct {
	Environment environment
	Rows        []multiRow
}

// measurer runs a mode of pingpong in a job of its own, by some plans, or by those
// in force for "".
type measurer func(plans string, args ...string) (multiReport, error)

// start measures the plans, each in jobs of its own, because a process has one
// set of plans, and returns the exit code.
func (c *tuneCmd) start(o *options) int {
	jobs, err := newJobs(o.launchFlags)
	if err != nil {
		fmt.Fprintf(os.Stderr, "pingpong: %v\n", err)
		return exitFailure
	}
	fmt.Fprintf(os.Stderr, "pingpong: running jobs like: %s\n", jobs.shown("request", c.multi(false)...))
	err = c.tune(jobs.run, func(e environment) *report {
		e.CommandLine = commandLine()
		return newReport(o.Format, "tune", c, e)
	})
	if exit := (*exitError)(nil); errors.As(err, &exit) {
		os.Stderr.Write(exit.diagnostics)
		return exit.code
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "pingpong: %v\n", err)
		return exitFailure
	}
	return 0
}

// multi is the command line of a job that measures.
func (c *tuneCmd) multi(inline bool) []string {
	largest := int(c.Largest)
	if inline {
		largest = min(largest, mostInline)
	}
	list := func(numbers sizes) string {
		var texts []string
		for _, n := range numbers {
			texts = append(texts, formatSize(n))
		}
		return strings.Join(texts, ",")
	}
	return []string{
		"multi", "--format=json", "--no-c", "--rounds=3", fmt.Sprintf("--ranks=%d,%d", c.Ranks[0], c.Ranks[1]),
		"--sizes=" + list(c.Sizes), "--frames=" + list(c.Frames), "--largest=" + formatSize(largest),
	}
}

// tune measures, finds the plans, and verifies what they gain.
func (c *tuneCmd) tune(run measurer, begin func(environment) *report) error {
	first, err := run("", "info", "--format=json")
	if err != nil {
		return err
	}
	text := first.Environment.Settings[plansVariable]
	inForce, err := wire.ParsePlans(text)
	if err != nil {
		return err
	}
	r := begin(first.Environment)
	r.begin(int(c.Rounds)*(len(framePlans)+2),
		"plans in force: "+text,
		"us = one-way time of a message; inline, datatype, request: all frames by that plan; in_force_us, tuned_us: measured again by the plans in force and those found",
		fmt.Sprintf("medians of %d jobs each, in turns, each the median of 3 rounds; what fits into the first part of a header is left out: it goes inline anyway", c.Rounds),
		fmt.Sprintf("a difference counts if it is %.0f %% or more and at most one in seven rounds contradicts; the rest is noise", 100*leastGain))
	var names []string
	for _, plan := range framePlans {
		names = append(names, plan.String())
	}
	forced, err := c.rounds(run, r, names)
	if err != nil {
		return err
	}
	times := planTimes{}
	for i, plan := range framePlans {
		for shape, us := range forced[i] {
			if times[shape] == nil {
				times[shape] = map[wire.Plan][]float64{}
			}
			times[shape][plan] = us
		}
	}
	tuned := times.thresholds(inForce)
	again := make([]map[multiShape][]float64, 2)
	if tuned.String() != inForce.String() {
		if again, err = c.rounds(run, r, []string{text, tuned.String()}); err != nil {
			return err
		}
	}
	sum, changed, verdicts := 0.0, 0, map[string]int{}
	for _, frames := range c.Frames {
		for _, size := range c.Sizes {
			shape := multiShape{frames, size}
			if times[shape] == nil || shape.fitsHeader() {
				continue
			}
			row := newTuneRow(shape, times[shape], inForce, tuned, again[0][shape], again[1][shape])
			if row.InForce != row.Tuned {
				sum += math.Log(gain(again[1][shape], again[0][shape]))
				changed++
				verdicts[row.Verdict]++
			}
			r.row(row)
		}
	}
	if len(r.Rows) == 0 {
		return errors.New("every message fits into a header: measure longer or more frames")
	}
	mean := math.Exp(sum / float64(max(changed, 1)))
	counts := fmt.Sprintf("of the %d messages whose plan changes %d are faster, %d slower, %d within noise: %.2f x of the time (geometric mean, noise counted as 1)",
		changed, verdicts["faster"], verdicts["slower"], verdicts["noise"], mean)
	switch {
	case changed == 0:
		r.conclude(inForce, "no other plans gain more than noise: those in force are kept")
	case mean > 1-leastGain:
		r.conclude(inForce, fmt.Sprintf("%v did not hold when measured again, %s; those in force are kept", tuned, counts))
	default:
		r.conclude(tuned, counts)
	}
	return r.end()
}

// rounds measures by each of the plans in turn, beginning with another in each
// round, and returns the times of the messages for each.
func (c *tuneCmd) rounds(run measurer, r *report, plans []string) ([]map[multiShape][]float64, error) {
	times := make([]map[multiShape][]float64, len(plans))
	for i := range times {
		times[i] = map[multiShape][]float64{}
	}
	for round := range int(c.Rounds) {
		for turn := range plans {
			i := (round + turn) % len(plans)
			got, err := run(plans[i], c.multi(plans[i] == wire.Inline.String())...)
			if err != nil {
				return nil, err
			}
			for _, row := range got.Rows {
				shape := multiShape{row.Frames, row.Size}
				times[i][shape] = append(times[i][shape], row.Us)
			}
			r.tick()
		}
	}
	return times, nil
}

func newTuneRow(shape multiShape, forced map[wire.Plan][]float64, inForce, tuned wire.Plans, before, after []float64) tuneRow {
	row := tuneRow{
		Frames: shape.frames, Size: shape.size,
		InlineUs: median(forced[wire.Inline]), DatatypeUs: median(forced[wire.Datatype]), RequestUs: median(forced[wire.Request]),
		InForce: inForce.For(shape.size).String(), Tuned: tuned.For(shape.size).String(),
		InForceUs: median(before), TunedUs: median(after), InForceRoundsUs: before, TunedRoundsUs: after,
		Ratio: median(ratios(after, before)),
	}
	switch g := gain(after, before); {
	case row.InForce == row.Tuned:
		row.Verdict = "same"
	case g < 1:
		row.Verdict = "faster"
	case g > 1:
		row.Verdict = "slower"
	default:
		row.Verdict = "noise"
	}
	return row
}

// conclude adds a note after the rows, and the plans in the form that
// MPI4GO_PLANS takes.
func (r *report) conclude(plans wire.Plans, note string) {
	r.Plans = plans.String()
	r.Notes = append(r.Notes, note)
	if r.format == "text" {
		fmt.Fprintf(r.out, "# %s\n%s=%s\n", note, plansVariable, r.Plans)
	}
}

// exitError is a job that has failed, and what it said.
type exitError struct {
	code        int
	diagnostics []byte
}

func (e *exitError) Error() string { return fmt.Sprintf("the job ended with code %d", e.code) }

// run runs a job to its end and reads its report.
func (j *jobs) run(plans string, args ...string) (multiReport, error) {
	var out, diagnostics bytes.Buffer
	command := j.command(plans, args...)
	command.Stdout, command.Stderr = &out, &diagnostics
	if code := supervise(command); code != 0 {
		return multiReport{}, &exitError{code, diagnostics.Bytes()}
	}
	var got multiReport
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		return got, fmt.Errorf("the report of pingpong %s: %w", quote(args), err)
	}
	return got, nil
}
