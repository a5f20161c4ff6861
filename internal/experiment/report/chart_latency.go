package report

import (
	"fmt"
	"math"
	"slices"

	"github.com/hybrid-pleg/hybrid-pleg/internal/experiment/result"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// perPanel is how many arms share a chart. More are split over several, each with the
// reference arm for comparison.
const perPanel = 8

// panelArms is how many arms a chart has where they are split.
const panelArms = 6

// armCurve is an arm's curve in a chart.
type armCurve struct {
	arm       int // in the plan, for the colour and the letter
	key, name string
	latency   *Latency
}

// panels splits curves so that each chart stays readable. The reference comes first in
// each.
func panels(curves []armCurve, reference string) [][]armCurve {
	if len(curves) <= perPanel {
		return [][]armCurve{curves}
	}
	var all [][]armCurve
	at := slices.IndexFunc(curves, func(c armCurve) bool { return c.name == reference })
	rest := slices.Clone(curves)
	if at >= 0 {
		rest = slices.Delete(rest, at, at+1)
	}
	// Curves near each other are compared in one chart.
	slices.SortStableFunc(rest, func(x, y armCurve) int {
		switch {
		case x.latency.P50.Value < y.latency.P50.Value:
			return -1
		case x.latency.P50.Value > y.latency.P50.Value:
			return 1
		default:
			return 0
		}
	})
	charts := (len(rest) + panelArms - 2) / (panelArms - 1)
	each := (len(rest) + charts - 1) / charts
	for part := range slices.Chunk(rest, each) {
		if at >= 0 {
			part = append([]armCurve{curves[at]}, part...)
		}
		all = append(all, part)
	}
	return all
}

// latencyCharts draws the cumulative distributions of a kind.
func latencyCharts(s *Summary, w *Workload, kind, from string) ([]chart, error) {
	var curves []armCurve
	for i, a := range s.Arms {
		for j := range w.Arms {
			if l := w.Arms[j].kind(kind).latency(from); w.Arms[j].Arm == a.Name && l != nil && l.N > 0 {
				curves = append(curves, armCurve{i, a.Key, a.Name, l})
			}
		}
	}
	if len(curves) == 0 {
		return nil, nil
	}
	low, high, early := latencyRange(curves)
	noun := map[string]string{result.Start: "starts", result.Exit: "exits", result.Removed: "removals"}[kind]
	caption := fmt.Sprintf("Share of all %s that an arm told within a time %s. The further left a curve, the faster; one that ends below 100%s%% never told the rest.", noun, since(from, kind), nbsp)
	if slices.ContainsFunc(curves, func(c armCurve) bool { return len(c.latency.Theory) > 0 }) {
		caption += " Dotted: what theory has for an arm with nothing but its period."
	}
	if early {
		caption += fmt.Sprintf(" What was told less than %s after, or before, the observer noticed is drawn at the left edge.", Duration(low))
	}
	var charts []chart
	all := panels(curves, s.Method.Reference)
	for i, part := range all {
		title := fmt.Sprintf("How fast %s are told, from %s", noun, map[string]string{
			FromKernel: "the kernel's moment", FromVisible: "when the runtime showed it", FromAsked: "when it was asked for",
		}[from])
		if len(all) > 1 {
			title += fmt.Sprintf(" (%d of %d)", i+1, len(all))
		}
		drawing, err := svg(func(f form) figure { return latencyPlot(part, low, high, noun, f) }, 330, alternative(title, part))
		if err != nil {
			return nil, err
		}
		charts = append(charts, chart{Title: title, SVG: drawing, Caption: caption, Keys: keysOf(s, part)})
		caption = ""
	}
	return charts, nil
}

// latencyRange returns the range of a logarithmic axis for curves. Early tells that some
// points lie left of it.
func latencyRange(curves []armCurve) (low, high float64, early bool) {
	low, high = math.Inf(1), math.Inf(-1)
	for _, c := range curves {
		for _, p := range c.latency.Curve {
			high = max(high, p.X)
			// One in a hundred that is very early would take most of the axis.
			if p.X > 0 && p.Y > 0.01 {
				low = min(low, p.X)
			}
		}
	}
	const shortest = 100e-6
	if high <= shortest {
		return shortest, 10 * shortest, true
	}
	low = roundDown(max(min(low, high/10), shortest))
	for _, c := range curves {
		early = early || c.latency.Curve[0].X < low
	}
	return low, roundUp(high), early
}

func latencyPlot(curves []armCurve, low, high float64, noun string, f form) figure {
	p := newPlot("time until it was told (logarithmic)", "share of all "+noun)
	logAxis(&p.X, low, high, tickTime, f.room())
	p.Y.Min, p.Y.Max = 0, 1
	p.Y.Tick.Marker = plot.TickerFunc(shareTicks)
	p.Add(drawn(func(c draw.Canvas, p *plot.Plot) {
		tx, ty := p.Transforms(&c)
		points := func(curve []Point, fromX, toX float64) []vg.Point {
			line := []vg.Point{{X: tx(max(fromX, low)), Y: ty(0)}}
			for _, p := range curve {
				line = append(line, vg.Point{X: tx(min(max(p.X, low), high)), Y: ty(p.Y)})
			}
			return append(line, vg.Point{X: tx(toX), Y: line[len(line)-1].Y})
		}
		place := placer{within: vg.Rectangle{Min: c.Min, Max: c.Max}}
		lines := make([][]vg.Point, len(curves))
		for i, curve := range curves {
			if t := curve.latency.Theory; len(t) > 0 {
				c.StrokeLines(theoryLine(curve.arm), points(t, t[0].X, high))
			}
			lines[i] = points(curve.latency.Curve, curve.latency.Curve[0].X, high)
			c.StrokeLines(armLine(curve.arm), lines[i])
		}
		for i, curve := range curves {
			b := badge{arm: curve.arm, text: curve.key, filled: true}
			if f.wide() {
				b.text += " " + clipped(curve.name, 14)
			}
			b.drawNear(c, &place, append(along(lines[i]), after(lines[i])...))
		}
	}))
	return p
}

// along returns points on a line that rises, from its middle outwards.
func along(line []vg.Point) []vg.Point {
	bottom, top := line[0].Y, line[len(line)-1].Y
	var points []vg.Point
	for _, share := range []vg.Length{0.5, 0.6, 0.4, 0.7, 0.3, 0.8, 0.2, 0.9, 0.1, 0.55, 0.45, 0.65, 0.35, 0.75, 0.25, 0.85, 0.15, 0.95, 0.05} {
		y := bottom + (top-bottom)*share
		for i := 1; i < len(line); i++ {
			a, b := line[i-1], line[i]
			if b.Y >= y && b.Y > a.Y {
				points = append(points, vg.Point{X: a.X + (b.X-a.X)*(y-a.Y)/(b.Y-a.Y), Y: y})
				break
			}
		}
	}
	if len(points) == 0 {
		points = append(points, line[len(line)/2])
	}
	return points
}

// after returns points on the level end of a line.
func after(line []vg.Point) []vg.Point {
	a, b := line[len(line)-2], line[len(line)-1]
	var points []vg.Point
	for _, share := range []vg.Length{0.5, 0.25, 0.75} {
		points = append(points, vg.Point{X: a.X + (b.X-a.X)*share, Y: b.Y})
	}
	return points
}

// alternative says in words what a chart of latencies shows.
func alternative(title string, curves []armCurve) string {
	s := title + ". Medians:"
	for i, c := range curves {
		if i > 0 {
			s += ","
		}
		s += " " + c.name + " " + Duration(c.latency.P50.Value)
	}
	return s + "."
}
