package main

import (
	"fmt"
	"math"
	"slices"
)

// median is the middle value, 0 of none.
func median(values []float64) float64 {
	n := len(values)
	if n == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// spread is the least and the greatest value.
type spread struct{ low, high float64 }

func spreadOf(values []float64) spread {
	if len(values) == 0 {
		return spread{}
	}
	return spread{slices.Min(values), slices.Max(values)}
}

// ratios are those of the repetitions, in which two peers ran soon after each other.
func ratios(a, b []float64) []float64 {
	r := make([]float64, min(len(a), len(b)))
	for i := range r {
		r[i] = a[i] / b[i]
	}
	return r
}

// inverted are the reciprocals.
func inverted(values []float64, numerator float64) []float64 {
	r := make([]float64, len(values))
	for i, v := range values {
		r[i] = numerator / v
	}
	return r
}

// three writes a number with three digits.
func three(v float64) string {
	if v == 0 || math.IsNaN(v) || math.IsInf(v, 0) {
		return fmt.Sprintf("%g", v)
	}
	digits := 2 - int(math.Floor(math.Log10(math.Abs(v))))
	return fmt.Sprintf("%.*f", min(max(digits, 0), 3), v)
}

// withSpread writes a median and, where there are several values, the range.
func withSpread(values []float64) string {
	if len(values) == 0 {
		return "-"
	}
	s := spreadOf(values)
	if len(values) == 1 {
		return three(values[0])
	}
	return fmt.Sprintf("%s (%s to %s)", three(median(values)), three(s.low), three(s.high))
}
