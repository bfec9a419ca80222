package main

import (
	"slices"
	"time"
)

// pass measures something once and returns microseconds for each operation.
type pass func() (us float64, err error)

// alternate measures by the passes in turn, n times, with a barrier before each:
// the state of a virtual machine changes from second to second, and so affects
// all of them alike. It returns the times of each pass; a nil pass has none.
func alternate(n int, barrier func() error, tick func(), passes ...pass) ([][]float64, error) {
	us := make([][]float64, len(passes))
	for range n {
		for i, measure := range passes {
			if measure == nil {
				continue
			}
			if err := barrier(); err != nil {
				return nil, err
			}
			took, err := measure()
			if err != nil {
				return nil, err
			}
			us[i] = append(us[i], took)
			tick()
		}
	}
	return us, nil
}

// timing is the part of a row that rounds give: the time of an operation.
type timing struct {
	Iterations int       `json:"iterations"`
	Us         float64   `json:"us"`
	CUs        float64   `json:"c_us,omitempty"`
	RoundsUs   []float64 `json:"rounds_us"`
	CRoundsUs  []float64 `json:"c_rounds_us,omitempty"`
}

func newTiming(iterations int, ours, c []float64) timing {
	return timing{iterations, median(ours), median(c), ours, c}
}

// timedPath is a timing of messages that may be of a device.
type timedPath struct {
	timing
	path
}

// ratio is the median over the rounds of our time to C's, 0 without C.
func (t timing) ratio() float64 { return median(ratios(t.RoundsUs, t.CRoundsUs)) }

// speedRatio is the median over the rounds of our speed to C's, 0 without C.
func (t timing) speedRatio() float64 { return median(ratios(t.CRoundsUs, t.RoundsUs)) }

// bench returns a line for each round, so that benchstat sees how they vary. An
// operation brings amount of a unit, per microsecond.
func (t timing) bench(key string, amount float64, unit string) []benchLine {
	lines := make([]benchLine, len(t.RoundsUs))
	for i, us := range t.RoundsUs {
		lines[i] = benchLine{key, t.Iterations, []benchValue{{us * 1e3, "ns/op"}}}
		if unit != "" {
			lines[i].values = append(lines[i].values, benchValue{amount / us, unit})
		}
		if i < len(t.CRoundsUs) {
			lines[i].values = append(lines[i].values, benchValue{t.CRoundsUs[i] * 1e3, "C-ns/op"})
		}
	}
	return lines
}

func ratios(a, b []float64) []float64 {
	r := make([]float64, min(len(a), len(b)))
	for i := range r {
		r[i] = a[i] / b[i]
	}
	return r
}

// median is the middle value, 0 of none.
func median(values []float64) float64 {
	n := len(values)
	if n == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// usPer is a duration in microseconds, divided by the operations in it.
func usPer(d time.Duration, operations int) float64 {
	return float64(d.Nanoseconds()) / 1e3 / float64(operations)
}
