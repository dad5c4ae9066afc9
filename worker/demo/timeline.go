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

// bin is how wide a bar of calls is, in the story's seconds.
const bin = 5.0

var (
	stateColors = map[breaker.State]color.RGBA{
		breaker.Open:       {R: 0xd6, G: 0x45, B: 0x41, A: 0xff},
		breaker.HalfOpen:   {R: 0xf0, G: 0xa3, B: 0x30, A: 0xff},
		breaker.Recovering: {R: 0xf6, G: 0xd9, B: 0x5b, A: 0xff},
	}
	closedColor   = color.RGBA{R: 0x5b, G: 0xb5, B: 0x74, A: 0xff}
	customerColor = color.RGBA{R: 0x2f, G: 0x6d, B: 0xb5, A: 0xff}
	probeColor    = color.RGBA{R: 0xd6, G: 0x45, B: 0x41, A: 0xff}
	actColor      = color.RGBA{R: 0x88, G: 0x88, B: 0x88, A: 0xff}
)

// timeline draws a story: the calls that reached the carrier, the breaker's
// states as bands, and how long each run took.
type timeline struct {
	story *story
	calls []carrier.Call
	acts  []actSpan
}

type actSpan struct {
	name       string
	begin, end time.Time
}

func (t timeline) write(file string) error {
	calls, err := t.callsPlot()
	if err != nil {
		return err
	}
	runs, err := t.runsPlot()
	if err != nil {
		return err
	}
	states, err := t.statesPlot()
	if err != nil {
		return err
	}
	canvas := vgsvg.New(26*vg.Centimeter, 16*vg.Centimeter)
	dc := draw.New(canvas)
	end := t.story.at(t.acts[len(t.acts)-1].end)
	rows := [][]*plot.Plot{{calls}, {states}, {runs}}
	for _, row := range rows {
		row[0].X.Min, row[0].X.Max = 0, end
		if err := t.actLines(row[0]); err != nil {
			return err
		}
	}
	// The middle row is a band: the three heights are set by hand.
	height := dc.Max.Y - dc.Min.Y
	parts := []struct{ from, to float64 }{{0.56, 1}, {0.40, 0.54}, {0, 0.38}}
	for i, row := range rows {
		row[0].Draw(draw.Canvas{Canvas: dc.Canvas, Rectangle: vg.Rectangle{
			Min: vg.Point{X: dc.Min.X, Y: dc.Min.Y + height*vg.Length(parts[i].from)},
			Max: vg.Point{X: dc.Max.X - 8, Y: dc.Min.Y + height*vg.Length(parts[i].to)},
		}})
	}
	var svg bytes.Buffer
	if _, err := canvas.WriteTo(&svg); err != nil {
		return fmt.Errorf("drawing the timeline: %w", err)
	}
	return os.WriteFile(file, svg.Bytes(), 0o644)
}

// callsPlot counts the calls that reached the failing region.
func (t timeline) callsPlot() (*plot.Plot, error) {
	p := newPlot("calls reaching the carrier, in 5 s")
	end := t.story.at(t.acts[len(t.acts)-1].end)
	bins := int(end/bin) + 1
	customers, probes := make([]float64, bins), make([]float64, bins)
	for _, c := range t.calls {
		at := int(t.story.at(c.At) / bin)
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
	p.Y.Min = 0
	for _, series := range []struct {
		name   string
		counts []float64
		base   []float64
		color  color.RGBA
	}{{"customers' calls", customers, make([]float64, bins), customerColor}, {"probes", probes, customers, probeColor}} {
		for i, n := range series.counts {
			if n == 0 {
				continue
			}
			if err := addBox(p, float64(i)*bin+0.5, series.base[i], float64(i+1)*bin-0.5, series.base[i]+n, series.color); err != nil {
				return nil, err
			}
			p.Y.Max = max(p.Y.Max, series.base[i]+n)
		}
		p.Legend.Add(series.name, swatch{series.color})
	}
	p.Legend.Top = true
	return p, nil
}

// statesPlot is a band of the breaker's states.
func (t timeline) statesPlot() (*plot.Plot, error) {
	p := newPlot("breaker")
	p.Y.Min, p.Y.Max = 0, 1
	p.Y.Tick.Marker = plot.ConstantTicks(nil)
	p.HideX()
	state := breaker.Closed
	from := t.story.at(t.acts[2].begin)
	// Act 1 has a breaker too: closed throughout.
	if err := addBox(p, 0, 0, t.story.at(t.acts[1].begin), 1, closedColor); err != nil {
		return nil, err
	}
	band := func(to float64) error {
		fill, ok := stateColors[state]
		if !ok {
			fill = closedColor
		}
		return addBox(p, from, 0, to, 1, fill)
	}
	for _, e := range t.story.edges {
		at := t.story.at(e.At)
		if err := band(at); err != nil {
			return nil, err
		}
		from, state = at, e.To
	}
	if err := band(t.story.at(t.acts[3].end)); err != nil {
		return nil, err
	}
	p.Legend.Add("closed", swatch{closedColor})
	for _, s := range []breaker.State{breaker.Open, breaker.HalfOpen, breaker.Recovering} {
		p.Legend.Add(s.String(), swatch{stateColors[s]})
	}
	p.Legend.Left, p.Legend.Top, p.Legend.XOffs = true, true, vg.Points(260)
	return p, nil
}

// runsPlot is one point a run: when it began, how long it took.
func (t timeline) runsPlot() (*plot.Plot, error) {
	p := newPlot("run, seconds")
	p.X.Label.Text = "seconds of the story"
	p.Y.Min = 0
	var whole, partial, empty plotter.XYs
	for _, r := range t.story.runs {
		point := plotter.XY{X: t.story.at(r.began), Y: r.seconds}
		switch {
		case r.outcome.Empty:
			empty = append(empty, point)
		case r.outcome.Partial:
			partial = append(partial, point)
		default:
			whole = append(whole, point)
		}
	}
	for _, series := range []struct {
		name   string
		points plotter.XYs
		color  color.RGBA
	}{{"whole answer", whole, closedColor}, {"partial answer, escalated", partial, stateColors[breaker.HalfOpen]}, {"nothing", empty, probeColor}} {
		if len(series.points) == 0 {
			continue
		}
		s, err := plotter.NewScatter(series.points)
		if err != nil {
			return nil, err
		}
		s.GlyphStyle = draw.GlyphStyle{Color: series.color, Radius: vg.Points(2.5), Shape: draw.CircleGlyph{}}
		p.Add(s)
		p.Legend.Add(series.name, s)
	}
	p.Legend.Top = true
	return p, nil
}

// actLines marks where each act begins.
func (t timeline) actLines(p *plot.Plot) error {
	for _, act := range t.acts[1:] {
		x := t.story.at(act.begin)
		line, err := plotter.NewLine(plotter.XYs{{X: x, Y: p.Y.Min}, {X: x, Y: p.Y.Max}})
		if err != nil {
			return err
		}
		line.Color, line.Dashes = actColor, []vg.Length{vg.Points(3), vg.Points(3)}
		p.Add(line)
	}
	if p.Y.Label.Text[:3] != "cal" {
		return nil
	}
	var labels plotter.XYLabels
	for _, act := range t.acts {
		labels.XYs = append(labels.XYs, plotter.XY{X: t.story.at(act.begin), Y: p.Y.Max})
		labels.Labels = append(labels.Labels, " "+act.name)
	}
	text, err := plotter.NewLabels(labels)
	if err != nil {
		return err
	}
	p.Add(text)
	p.Y.Max *= 1.1
	return nil
}

func newPlot(label string) *plot.Plot {
	p := plot.New()
	p.Y.Label.Text = label
	p.Y.Label.TextStyle.Font.Size, p.X.Label.TextStyle.Font.Size = vg.Points(9), vg.Points(9)
	p.Legend.TextStyle.Font.Size = vg.Points(8)
	p.BackgroundColor = color.White
	return p
}

func addBox(p *plot.Plot, x0, y0, x1, y1 float64, fill color.Color) error {
	box, err := plotter.NewPolygon(plotter.XYs{{X: x0, Y: y0}, {X: x1, Y: y0}, {X: x1, Y: y1}, {X: x0, Y: y1}})
	if err != nil {
		return err
	}
	box.Color, box.LineStyle.Width = fill, 0
	p.Add(box)
	return nil
}

// swatch is a colour in a legend.
type swatch struct{ color color.Color }

// Thumbnail fills the legend's box.
func (s swatch) Thumbnail(c *draw.Canvas) {
	c.FillPolygon(s.color, []vg.Point{
		{X: c.Min.X, Y: c.Min.Y}, {X: c.Max.X, Y: c.Min.Y}, {X: c.Max.X, Y: c.Max.Y}, {X: c.Min.X, Y: c.Max.Y},
	})
}
