package main

import (
	"math"
	"slices"

	"github.com/mpi4go/mpi4go/internal/wire"
)

// planTimes are the times of messages by each plan that was measured, in the
// order of the rounds.
type planTimes map[multiShape]map[wire.Plan][]float64

// framePlans are the plans of frames, in the order in which they follow each
// other as frames grow.
var framePlans = []wire.Plan{wire.Inline, wire.Datatype, wire.Request}

// leastGain is the smallest difference that counts, whatever the rounds say.
const leastGain = 0.03

// gain is the median of the ratios of two times that were measured in turns. It is
// 1 if that is no more than noise: if it is less than leastGain away from 1, or
// more than one in seven rounds is on the other side of 1.
func gain(times, others []float64) float64 {
	r := ratios(times, others)
	if len(r) == 0 {
		return 1
	}
	middle, agree := median(r), 0
	for _, x := range r {
		if (x < 1) == (middle < 1) {
			agree++
		}
	}
	if math.Abs(middle-1) < leastGain || 7*agree < 6*len(r) {
		return 1
	}
	return middle
}

// fitsHeader tells whether a message travels in the first part of its header
// (docs/wire.md), and so inline whatever the limit.
func (s multiShape) fitsHeader() bool { return wire.FitsFirst(s.frames, s.frames*s.size) }

// thresholds finds the plans for frames of each length that take the least time,
// as the geometric mean over the numbers of frames. What is within noise of the
// plans in force counts as equal to them, and among equals those in force win. It
// returns the plans in force if none are better. Nothing changes for frames beyond
// the lengths that were measured.
func (t planTimes) thresholds(inForce wire.Plans) wire.Plans {
	sizes, cost := t.costs(inForce)
	if len(sizes) == 0 {
		return inForce
	}
	var best []wire.Plan
	least, changes := 0.0, 0
	for inline := range len(sizes) + 1 { // as many lengths go inline,
		for datatype := range len(sizes) + 1 - inline { // and the next as many by datatype
			plans := slices.Repeat([]wire.Plan{wire.Request}, len(sizes))
			for i := range inline + datatype {
				plans[i] = wire.Datatype
				if i < inline {
					plans[i] = wire.Inline
				}
			}
			sum, changed := 0.0, 0
			for i, plan := range plans {
				sum += cost[i][plan]
				if plan != inForce.For(sizes[i]) {
					changed++
				}
			}
			const rounding = 1e-9
			if sum < least-rounding || best != nil && sum < least+rounding && changed < changes {
				best, least, changes = plans, sum, changed
			}
		}
	}
	if best == nil {
		return inForce
	}
	return rules(sizes, best, inForce)
}

// costs returns the lengths that were measured, and for each of them the
// logarithm of the time by each plan over that by the plan in force.
func (t planTimes) costs(inForce wire.Plans) (sizes []int, costs []map[wire.Plan]float64) {
	shapes := map[int][]multiShape{}
	for shape := range t {
		if !shape.fitsHeader() {
			shapes[shape.size] = append(shapes[shape.size], shape)
		}
	}
	for size := range shapes {
		sizes = append(sizes, size)
	}
	slices.Sort(sizes)
	for _, size := range sizes {
		cost := map[wire.Plan]float64{}
		for _, plan := range framePlans {
			for _, shape := range shapes[size] {
				times, now := t[shape][plan], t[shape][inForce.For(size)]
				switch {
				case len(times) == 0: // it is known to be slow there
					cost[plan] = math.Inf(1)
				case len(now) == 0: // anything is better
					cost[plan] += math.Log(median(times)) - math.Log(math.MaxFloat64)
				default:
					cost[plan] += math.Log(gain(times, now)) / float64(len(shapes[size]))
				}
			}
		}
		costs = append(costs, cost)
	}
	return sizes, costs
}

// rules writes the plans of some lengths as rules. A limit that is in force stays
// as it is if it is between the same two lengths.
func rules(sizes []int, plans []wire.Plan, inForce wire.Plans) (out wire.Plans) {
	add := func(r wire.Rule) {
		if n := len(out); n > 0 && out[n-1].Plan == r.Plan {
			out[n-1].UpTo = r.UpTo
			return
		}
		out = append(out, r)
	}
	limit := func(plan wire.Plan, from, to int) int {
		for _, r := range inForce {
			if r.Plan == plan && from <= r.UpTo && r.UpTo < to {
				return r.UpTo
			}
		}
		return from
	}
	if plans[0] != wire.Inline { // what is in the header travels inline only if this comes first
		add(wire.Rule{Plan: wire.Inline, UpTo: limit(wire.Inline, 0, sizes[0])})
	}
	for i, size := range sizes {
		if i+1 < len(sizes) {
			add(wire.Rule{Plan: plans[i], UpTo: limit(plans[i], size, sizes[i+1])})
		} else {
			add(wire.Rule{Plan: plans[i], UpTo: size})
		}
	}
	largest := sizes[len(sizes)-1]
	for _, r := range inForce {
		if r.UpTo > largest {
			add(r)
		}
	}
	return out
}
