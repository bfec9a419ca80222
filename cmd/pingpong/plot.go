package main

import (
	"fmt"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
)

// pointer is a row that is a point of a curve.
type pointer interface {
	point() (size, ours, c float64)
}

// curver is a row of a mode that has more than one curve.
type curver interface {
	curve() string // which of them it belongs to
}

// plot makes the end of the report draw its rows into a file, if that has a name.
func (r *report) plot(file picture, across, up string) {
	if r != nil {
		r.picture, r.across, r.up = string(file), across, up
	}
}

func (r *report) draw() error {
	if r.picture == "" {
		return nil
	}
	lines := r.lines()
	if len(lines) == 0 {
		return fmt.Errorf("--plot %s: there is no message of 1 byte or more to draw", r.picture)
	}
	p := plot.New()
	p.Title.Text = fmt.Sprintf("pingpong %s: mpi4go %s over %s", r.Mode, r.Environment.Version, r.Environment.MPI)
	p.Title.Padding = vg.Points(12)
	p.X.Label.Text = r.across
	p.Y.Label.Text = r.up
	p.X.Scale, p.Y.Scale = plot.LogScale{}, plot.LogScale{}
	p.X.Tick.Marker, p.Y.Tick.Marker = plot.TickerFunc(powersOf2), plot.LogTicks{Prec: -1}
	p.Legend.Top, p.Legend.Left, p.Legend.Padding = true, true, vg.Points(4)
	p.Add(plotter.NewGrid())
	if err := plotutil.AddLinePoints(p, lines...); err != nil {
		return fmt.Errorf("--plot: %w", err)
	}
	if err := p.Save(8*vg.Inch, 5*vg.Inch, r.picture); err != nil {
		return fmt.Errorf("--plot: %w", err)
	}
	return nil
}

// lines are the curves, each a name and its points: ours and C's of each kind of
// rows.
func (r *report) lines() (lines []any) {
	type key struct {
		of string // the kind of rows
		c  bool
	}
	points, order := map[key]plotter.XYs{}, []key(nil)
	add := func(k key, size, y float64) {
		if size <= 0 || y <= 0 { // 0 bytes have no place on a logarithmic axis
			return
		}
		if points[k] == nil {
			order = append(order, k)
		}
		points[k] = append(points[k], plotter.XY{X: size, Y: y})
	}
	for _, row := range r.Rows {
		of := ""
		if row, ok := row.(curver); ok {
			of = ", " + row.curve()
		}
		size, ours, c := row.(pointer).point()
		add(key{of, false}, size, ours)
		add(key{of, true}, size, c)
	}
	for _, k := range order {
		name := "mpi4go " + r.Environment.Version
		if k.c {
			name = "C, " + r.Environment.MPI
		}
		lines = append(lines, name+k.of, points[k])
	}
	return lines
}

// powersOf2 marks every power of two and names every fourth.
func powersOf2(from, to float64) (ticks []plot.Tick) {
	for power := int(math.Ceil(math.Log2(from))); power <= int(math.Log2(to)); power++ {
		tick := plot.Tick{Value: math.Exp2(float64(power))}
		if power%4 == 0 {
			tick.Label = formatSize(1 << power)
		}
		ticks = append(ticks, tick)
	}
	return ticks
}
