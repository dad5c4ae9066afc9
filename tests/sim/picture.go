package main

import (
	"fmt"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
)

// draw plots the time until every breaker is open for a hanging dependency, by
// traffic and fleet size.
func draw(r report, file string) error {
	p := plot.New()
	p.Title.Text = "Every call hangs: from the fault until every breaker of the fleet is open (99.9 % of runs)"
	p.X.Label.Text = "calls a second of each worker"
	p.Y.Label.Text = "seconds"
	p.X.Scale, p.Y.Scale = plot.LogScale{}, plot.LogScale{}
	p.X.Tick.Marker, p.Y.Tick.Marker = plot.LogTicks{Prec: 3}, marks{5, 6, 7, 8, 10, 15, 20, 30, 50, 100, 180}
	p.Add(plotter.NewGrid())
	bySize := map[int]plotter.XYs{}
	var sizes []int
	for _, o := range r.TrueOutage {
		if o.Fault != hanging.String() || o.FaultToOpenP999 == nil || o.Others > o.Runs {
			continue
		}
		if bySize[o.Workers] == nil {
			sizes = append(sizes, o.Workers)
		}
		bySize[o.Workers] = append(bySize[o.Workers], plotter.XY{X: o.CallsPerSecond, Y: *o.FaultToOpenP999})
	}
	var lines []any
	for _, n := range sizes {
		lines = append(lines, fmt.Sprintf("%d workers", n), bySize[n])
	}
	if err := plotutil.AddLinePoints(p, lines...); err != nil {
		return err
	}
	limit := plotter.NewFunction(func(float64) float64 { return config.Latency.Seconds() })
	limit.Dashes = []vg.Length{vg.Points(4), vg.Points(4)}
	p.Add(limit)
	p.Legend.Add("latency threshold", limit)
	p.Legend.Top = true
	p.X.Min, p.X.Max = 0.1, 100
	p.Y.Min = 4.5
	return p.Save(9*vg.Inch, 4.5*vg.Inch, file)
}

// marks are labelled values of an axis.
type marks []float64

func (m marks) Ticks(lowest, highest float64) []plot.Tick {
	var ticks []plot.Tick
	for _, v := range m {
		if v >= lowest && v <= highest {
			ticks = append(ticks, plot.Tick{Value: v, Label: fmt.Sprintf("%g", v)})
		}
	}
	return ticks
}
