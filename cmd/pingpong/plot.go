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

// plot makes the end of the report draw its rows into a file, if that has a name.
func (r *report) plot(file picture, axis string) {
	if r != nil {
		r.picture, r.axis = string(file), axis
	}
}

func (r *report) draw() error {
	if r.picture == "" {
		return nil
	}
	var ours, c plotter.XYs
	for _, row := range r.Rows {
		size, y, cy := row.(pointer).point()
		if size > 0 && y > 0 { // 0 bytes have no place on a logarithmic axis
			ours = append(ours, plotter.XY{X: size, Y: y})
		}
		if size > 0 && cy > 0 {
			c = append(c, plotter.XY{X: size, Y: cy})
		}
	}
	if len(ours) == 0 {
		return fmt.Errorf("--plot %s: there is no message of 1 byte or more to draw", r.picture)
	}
	p := plot.New()
	p.Title.Text = fmt.Sprintf("pingpong %s: mpi4go %s over %s", r.Mode, r.Environment.Version, r.Environment.MPI)
	p.Title.Padding = vg.Points(12)
	p.X.Label.Text = "message size (bytes)"
	p.Y.Label.Text = r.axis
	p.X.Scale, p.Y.Scale = plot.LogScale{}, plot.LogScale{}
	p.X.Tick.Marker, p.Y.Tick.Marker = plot.TickerFunc(powersOf2), plot.LogTicks{Prec: -1}
	p.Legend.Top, p.Legend.Left, p.Legend.Padding = true, true, vg.Points(4)
	p.Add(plotter.NewGrid())
	lines := []any{"mpi4go " + r.Environment.Version, ours}
	if len(c) > 0 {
		lines = append(lines, "C, "+r.Environment.MPI, c)
	}
	if err := plotutil.AddLinePoints(p, lines...); err != nil {
		return fmt.Errorf("--plot: %w", err)
	}
	if err := p.Save(8*vg.Inch, 5*vg.Inch, r.picture); err != nil {
		return fmt.Errorf("--plot: %w", err)
	}
	return nil
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
