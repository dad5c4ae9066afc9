package demo

import (
	"bytes"
	"fmt"
	"image/color"
	"os"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/toolbreaker/toolbreaker/breaker"
	"github.com/toolbreaker/toolbreaker/worker/carrier"
)

const (
	pictureWidth  = 26 * vg.Centimeter
	pictureHeight = 17 * vg.Centimeter
	// bin is the width of a bar of calls, in simulated seconds.
	bin = 5.0
	// headroom leaves space above the highest bar for the legend and the names.
	headroom = 1.35
)

var (
	green  = color.RGBA{R: 0x5b, G: 0xb5, B: 0x74, A: 0xff}
	red    = color.RGBA{R: 0xd6, G: 0x45, B: 0x41, A: 0xff}
	orange = color.RGBA{R: 0xf0, G: 0xa3, B: 0x30, A: 0xff}
	yellow = color.RGBA{R: 0xf6, G: 0xd9, B: 0x5b, A: 0xff}
	blue   = color.RGBA{R: 0x2f, G: 0x6d, B: 0xb5, A: 0xff}
	grey   = color.RGBA{R: 0x99, G: 0x99, B: 0x99, A: 0xff}
	pale   = color.RGBA{R: 0xe6, G: 0xe6, B: 0xe6, A: 0xff}
)

var stateColors = map[breaker.State]color.RGBA{
	breaker.Closed: green, breaker.Open: red, breaker.HalfOpen: orange, breaker.Recovering: yellow,
}

// timeline draws three plots: the calls that reached the carrier, the breaker's
// states, and the duration of each run.
type timeline struct {
	scenario *scenario
	calls    []carrier.Call
	// phases are in order.
	phases []phaseSpan
}

type phaseSpan struct {
	name       string
	begin, end time.Time
}

func (t timeline) end() float64 { return t.scenario.at(t.phases[len(t.phases)-1].end) }

func (t timeline) write(file string) error {
	canvas := vgsvg.New(pictureWidth, pictureHeight)
	dc := draw.New(canvas)
	rows := []struct {
		draw     func(*plot.Plot) error
		from, to vg.Length // of the picture's height
		plot     *plot.Plot
		area     draw.Canvas
	}{
		{draw: t.drawCalls, from: 0.55, to: 0.99},
		{draw: t.drawStates, from: 0.39, to: 0.53},
		{draw: t.drawRuns, from: 0.01, to: 0.37},
	}
	// The plots share one time axis, so their data areas get the same width.
	left, right := vg.Length(0), dc.Max.X
	for i := range rows {
		r := &rows[i]
		r.plot = newPlot()
		if err := r.draw(r.plot); err != nil {
			return fmt.Errorf("drawing the timeline: %w", err)
		}
		r.plot.X.Min, r.plot.X.Max = 0, t.end()
		if err := t.markPhases(r.plot); err != nil {
			return fmt.Errorf("drawing the timeline: %w", err)
		}
		r.area = draw.Canvas{Canvas: dc.Canvas, Rectangle: vg.Rectangle{
			Min: vg.Point{X: dc.Min.X + 6, Y: pictureHeight * r.from},
			Max: vg.Point{X: dc.Max.X - 12, Y: pictureHeight * r.to},
		}}
		data := r.plot.DataCanvas(r.area)
		left, right = max(left, data.Min.X), min(right, data.Max.X)
	}
	for _, r := range rows {
		data := r.plot.DataCanvas(r.area)
		r.area.Min.X += left - data.Min.X
		r.area.Max.X += right - data.Max.X
		r.plot.Draw(r.area)
	}
	var svg bytes.Buffer
	if _, err := canvas.WriteTo(&svg); err != nil {
		return fmt.Errorf("drawing the timeline: %w", err)
	}
	return os.WriteFile(file, svg.Bytes(), 0o644)
}

// drawCalls draws the calls that reached the failing region as bars, probes on top.
func (t timeline) drawCalls(p *plot.Plot) error {
	p.Y.Label.Text = "calls reaching the carrier per 5 s"
	bins := int(t.end()/bin) + 1
	customers, probes := make([]float64, bins), make([]float64, bins)
	for _, c := range t.calls {
		at := int(t.scenario.at(c.At) / bin)
		if c.Region != region || at < 0 || at >= bins {
			continue
		}
		switch c.Kind {
		case carrier.Customer:
			customers[at]++
		case carrier.Probe:
			probes[at]++
		}
	}
	highest := 1.0
	for i := range bins {
		from, to := float64(i)*bin+0.4, float64(i+1)*bin-0.4
		if err := addBox(p, from, 0, to, customers[i], blue); err != nil {
			return err
		}
		if err := addBox(p, from, customers[i], to, customers[i]+probes[i], red); err != nil {
			return err
		}
		highest = max(highest, customers[i]+probes[i])
	}
	p.Y.Min, p.Y.Max = 0, highest*headroom
	p.Legend.Add("customer calls", swatch{blue})
	p.Legend.Add("probes", swatch{red})
	return t.namePhases(p)
}

// drawStates draws the breaker's states as a band.
func (t timeline) drawStates(p *plot.Plot) error {
	p.Y.Label.Text = "breaker"
	p.Y.Min, p.Y.Max = 0, 1
	p.Y.Tick.Marker = plot.ConstantTicks(nil)
	p.HideX()
	without := t.phases[1]
	if err := addBox(p, 0, 0, t.scenario.at(without.begin), 1, green); err != nil {
		return err
	}
	if err := addBox(p, t.scenario.at(without.begin), 0, t.scenario.at(without.end), 1, pale); err != nil {
		return err
	}
	state, from := breaker.Closed, t.scenario.at(without.end)
	for _, e := range t.scenario.transitions {
		at := t.scenario.at(e.At)
		if err := addBox(p, from, 0, at, 1, stateColors[state]); err != nil {
			return err
		}
		from, state = at, e.To
	}
	if err := addBox(p, from, 0, t.end(), 1, stateColors[state]); err != nil {
		return err
	}
	for _, s := range []breaker.State{breaker.Closed, breaker.Open, breaker.HalfOpen, breaker.Recovering} {
		p.Legend.Add(s.String(), swatch{stateColors[s]})
	}
	p.Legend.Add("no breaker", swatch{pale})
	return nil
}

// drawRuns draws one point per run: start, duration and outcome.
func (t timeline) drawRuns(p *plot.Plot) error {
	p.X.Label.Text = "simulated seconds"
	p.Y.Label.Text = "run duration, seconds"
	var complete, partial, empty plotter.XYs
	highest := 1.0
	for _, r := range t.scenario.runs {
		point := plotter.XY{X: t.scenario.at(r.started), Y: r.seconds}
		highest = max(highest, r.seconds)
		switch {
		case r.outcome.Empty:
			empty = append(empty, point)
		case r.outcome.Partial:
			partial = append(partial, point)
		default:
			complete = append(complete, point)
		}
	}
	for _, series := range []struct {
		name   string
		points plotter.XYs
		color  color.RGBA
	}{{"complete answer", complete, green}, {"partial answer, escalated", partial, orange}, {"no answer", empty, red}} {
		if len(series.points) == 0 {
			continue
		}
		s, err := plotter.NewScatter(series.points)
		if err != nil {
			return err
		}
		s.GlyphStyle = draw.GlyphStyle{Color: series.color, Radius: vg.Points(2.5), Shape: draw.CircleGlyph{}}
		p.Add(s)
		p.Legend.Add(series.name, s)
	}
	p.Y.Min, p.Y.Max = 0, highest*headroom
	return nil
}

// markPhases draws a line at the start of each phase.
func (t timeline) markPhases(p *plot.Plot) error {
	for _, phase := range t.phases[1:] {
		x := t.scenario.at(phase.begin)
		line, err := plotter.NewLine(plotter.XYs{{X: x, Y: p.Y.Min}, {X: x, Y: p.Y.Max}})
		if err != nil {
			return err
		}
		line.Color, line.Dashes = grey, []vg.Length{vg.Points(3), vg.Points(3)}
		p.Add(line)
	}
	return nil
}

func (t timeline) namePhases(p *plot.Plot) error {
	var names plotter.XYLabels
	for _, phase := range t.phases {
		names.XYs = append(names.XYs, plotter.XY{X: t.scenario.at(phase.begin), Y: p.Y.Max * 0.94})
		names.Labels = append(names.Labels, " "+phase.name)
	}
	labels, err := plotter.NewLabels(names)
	if err != nil {
		return err
	}
	for i := range labels.TextStyle {
		labels.TextStyle[i].Font.Size = vg.Points(9)
	}
	p.Add(labels)
	return nil
}

func newPlot() *plot.Plot {
	p := plot.New()
	p.BackgroundColor = color.White
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		axis.Label.TextStyle.Font.Size = vg.Points(9)
		axis.Tick.Label.Font.Size = vg.Points(8)
		axis.Tick.Marker = integerTicks{}
	}
	p.Legend.TextStyle.Font.Size = vg.Points(8)
	p.Legend.Padding = vg.Points(1.5)
	// The phase without a breaker leaves room there.
	p.Legend.Top, p.Legend.Left = true, true
	p.Legend.XOffs, p.Legend.YOffs = pictureWidth*0.42, -vg.Points(10)
	return p
}

// integerTicks labels ticks with integers.
type integerTicks struct{}

// Ticks returns gonum's default ticks with integer labels.
func (integerTicks) Ticks(low, high float64) []plot.Tick {
	ticks := plot.DefaultTicks{}.Ticks(low, high)
	for i := range ticks {
		if ticks[i].Label != "" {
			ticks[i].Label = fmt.Sprintf("%.0f", ticks[i].Value)
		}
	}
	return ticks
}

func addBox(p *plot.Plot, x0, y0, x1, y1 float64, fill color.Color) error {
	if x0 >= x1 || y0 >= y1 {
		return nil
	}
	box, err := plotter.NewPolygon(plotter.XYs{{X: x0, Y: y0}, {X: x1, Y: y0}, {X: x1, Y: y1}, {X: x0, Y: y1}})
	if err != nil {
		return err
	}
	box.Color, box.LineStyle.Width = fill, 0
	p.Add(box)
	return nil
}

// swatch is a coloured box in a legend.
type swatch struct{ color color.Color }

// Thumbnail draws the box.
func (s swatch) Thumbnail(c *draw.Canvas) {
	c.FillPolygon(s.color, []vg.Point{
		{X: c.Min.X, Y: c.Min.Y}, {X: c.Max.X, Y: c.Min.Y}, {X: c.Max.X, Y: c.Max.Y}, {X: c.Min.X, Y: c.Max.Y},
	})
}
