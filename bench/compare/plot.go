package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
	vgdraw "gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// picture is a plot of the report.
type picture struct{ title, file string }

// curve is what a plot shows of one peer.
type curve struct {
	name   string
	points plotter.XYs
}

// drawAll writes the plots: time or speed, and its ratio to C's.
func drawAll(r *Report, dir string) (pictures []picture, err error) {
	for _, of := range []struct {
		kind, title, axis string
		y                 func(x *Result) float64
	}{
		{"latency", "One-way latency", "one-way latency (us)", func(x *Result) float64 { return median(x.Us) }},
		{"throughput", "Throughput", "MB/s", func(x *Result) float64 { return float64(x.Size) / median(x.Us) }},
	} {
		if len(r.items(of.kind)) < 2 {
			continue
		}
		var absolute, ratio []curve
		for _, x := range r.Peers {
			if !drawn(x) {
				continue
			}
			a, b := curve{name: x.Name}, curve{name: x.Name}
			for _, i := range r.items(of.kind) {
				ours := r.find(x.Name, i)
				if ours == nil {
					continue
				}
				a.points = append(a.points, plotter.XY{X: float64(i.Size), Y: of.y(ours)})
				if c := r.c(x, i); c != nil && x.Way != "c" {
					b.points = append(b.points, plotter.XY{X: float64(i.Size), Y: of.y(ours) / of.y(c)})
				}
			}
			absolute, ratio = append(absolute, a), append(ratio, b)
		}
		for _, p := range []struct {
			suffix, title, axis string
			curves              []curve
		}{
			{"", of.title + " against size", of.axis, absolute},
			{"-to-c", of.title + ", ratio to C", "ratio to C", ratio},
		} {
			file := of.kind + p.suffix + ".svg"
			if drew, err := draw(p.title, p.axis, p.curves, filepath.Join(dir, file)); err != nil {
				return nil, err
			} else if drew {
				pictures = append(pictures, picture{p.title, file})
			}
		}
	}
	return pictures, nil
}

// drawn tells whether a peer is in the plots: over other MPIs than Open MPI only coro and C
// are, lest nobody finds anything.
func drawn(x *Peer) bool {
	return x.MPI == "" || x.MPI == "openmpi" || x.Way == "coro" || x.Way == "c"
}

// c is the result of C over the MPI of a peer, of a peer without one over the first MPI.
func (r *Report) c(x *Peer, i Item) *Result {
	if x.MPI != "" {
		return r.find(over("c", x.MPI), i)
	}
	for _, y := range r.Peers {
		if y.Way == "c" {
			return r.find(y.Name, i)
		}
	}
	return nil
}

// draw writes one plot, unless it has no points.
func draw(title, axis string, curves []curve, file string) (bool, error) {
	p := plot.New()
	p.Title.Text, p.Title.Padding = title, vg.Points(10)
	p.X.Label.Text, p.Y.Label.Text = "message size (bytes)", axis
	p.X.Scale, p.Y.Scale = plot.LogScale{}, plot.LogScale{}
	p.X.Tick.Marker, p.Y.Tick.Marker = plot.TickerFunc(powersOf4), plot.LogTicks{Prec: -1}
	p.Add(plotter.NewGrid())
	legend := plot.NewLegend()
	legend.Top, legend.Left = true, true
	drew := false
	for n, c := range curves {
		if len(c.points) == 0 {
			continue
		}
		drew = true
		line, points, err := plotter.NewLinePoints(c.points)
		if err != nil {
			return false, fmt.Errorf("%s: %s: %w", file, c.name, err)
		}
		line.Color, points.Color = plotutil.Color(n), plotutil.Color(n)
		line.Dashes, points.Shape = plotutil.Dashes(n), plotutil.Shape(n)
		if strings.HasPrefix(c.name, "coro") || strings.HasPrefix(c.name, "c@") {
			line.Width, line.Dashes = vg.Points(2), nil
		}
		p.Add(line, points)
		legend.Add(c.name, line, points)
	}
	if !drew {
		return false, nil
	}
	const width, height, beside = 10 * vg.Inch, 6 * vg.Inch, 2 * vg.Inch
	image := vgsvg.New(width, height)
	canvas := vgdraw.New(image)
	p.Draw(vgdraw.Crop(canvas, 0, -beside, 0, 0))
	legend.Draw(vgdraw.Crop(canvas, width-beside+vg.Points(8), 0, 0, -vg.Points(30)))
	out, err := os.Create(file)
	if err != nil {
		return false, err
	}
	if _, err := image.WriteTo(out); err != nil {
		out.Close()
		return false, fmt.Errorf("%s: %w", file, err)
	}
	return true, out.Close()
}

// powersOf4 marks every power of four and names every second.
func powersOf4(from, to float64) (ticks []plot.Tick) {
	for power := 2 * int(math.Ceil(math.Log2(from)/2)); power <= int(math.Log2(to)); power += 2 {
		tick := plot.Tick{Value: math.Exp2(float64(power))}
		if power%4 == 0 {
			tick.Label = strings.ReplaceAll(formatSize(1<<power), " ", "")
		}
		ticks = append(ticks, tick)
	}
	return ticks
}
