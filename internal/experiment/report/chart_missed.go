package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/hybrid-pleg/hybrid-pleg/internal/experiment/result"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// missedPanel is how many arms with error bars a chart bears.
const missedPanel = 5

type armBins struct {
	arm       int
	key, name string
	bins      []LifeBin
}

// missedCharts draws the share missed by how long a container could be seen: of exits by
// the time listed, of starts by the time it ran.
func missedCharts(s *Summary, w *Workload, kind string) ([]chart, error) {
	var some []armBins
	var none []string
	for i, a := range s.Arms {
		at := slices.IndexFunc(w.Arms, func(f Figures) bool { return f.Arm == a.Name })
		if at < 0 {
			continue
		}
		k := w.Arms[at].kind(kind)
		if k == nil || len(k.ByLife) == 0 {
			continue
		}
		if slices.ContainsFunc(k.ByLife, func(b LifeBin) bool { return b.Missed > 0 || b.Theory != nil && *b.Theory > 0.01 }) {
			some = append(some, armBins{i, a.Key, a.Name, k.ByLife})
		} else {
			none = append(none, a.Name+" ("+a.Key+")")
		}
	}
	if len(some) == 0 {
		return nil, nil
	}
	title, what, axis := "Exits never told", "whose exit was never told", "time listed"
	caption := "By how long the runtime listed the container, from when it first could be listed to its removal."
	if kind == result.Start {
		title, what, axis = "Running never seen", "that no listing showed running", "time it ran"
		caption = "By how long the container ran. A start that was only inferred afterwards counts as not seen."
	}
	caption += fmt.Sprintf(" Bars: 95%s%% Wilson intervals. Dotted: theory for an arm with nothing but its period.", nbsp)
	if len(none) > 0 {
		caption += fmt.Sprintf(" None missed by %s, which the chart leaves out.", list(none))
	}
	var charts []chart
	all := slices.Collect(slices.Chunk(some, missedPanel))
	for i, part := range all {
		title := title
		if len(all) > 1 {
			title += fmt.Sprintf(" (%d of %d)", i+1, len(all))
		}
		alt := title + ", by " + axis + "."
		curves := make([]armCurve, len(part))
		for j, a := range part {
			curves[j] = armCurve{arm: a.arm, key: a.key, name: a.name}
			missed, of := 0, 0
			for _, b := range a.bins {
				missed, of = missed+b.Missed, of+b.Of
			}
			alt += fmt.Sprintf(" %s %s of %s.", a.name, count(missed), count(of))
		}
		drawing, err := svg(func(f form) figure {
			return missedPlot(part, axis, "share of containers "+what, f)
		}, 320, alt)
		if err != nil {
			return nil, err
		}
		charts = append(charts, chart{Title: title, SVG: drawing, Caption: caption, Keys: keysOf(s, curves)})
		caption = ""
	}
	return charts, nil
}

func missedPlot(arms []armBins, x, y string, f form) figure {
	low, high, top := math.Inf(1), 0.0, 0.0
	for _, a := range arms {
		for _, b := range a.bins {
			low, high, top = min(low, b.Mean), max(high, b.Mean), max(top, b.Interval.High)
		}
	}
	if high/low > 30 {
		x += " (logarithmic)"
	}
	p := newPlot(x, y)
	if high/low > 30 {
		logAxis(&p.X, low, high, tickTime, f.room())
	} else {
		step := timeStep(high)
		p.X.Min, p.X.Max = 0, step*math.Ceil(high/step)
		p.X.Tick.Marker = plot.TickerFunc(timeTicks)
	}
	p.Y.Min, p.Y.Max = 0, min(1, roundUp(top))
	p.Y.Tick.Marker = plot.TickerFunc(shareTicks)
	// Points at the edge have bars beside them.
	p.X.Padding = 8
	p.Add(drawn(func(c draw.Canvas, p *plot.Plot) {
		tx, ty := p.Transforms(&c)
		place := placer{within: vg.Rectangle{Min: c.Min, Max: c.Max}}
		lines := make([][]vg.Point, len(arms))
		for i, a := range arms {
			// All arms have their points at the same lives.
			aside := 4 * (vg.Length(i) - vg.Length(len(arms)-1)/2)
			var theory []vg.Point
			for _, b := range a.bins {
				at := vg.Point{X: tx(b.Mean) + aside, Y: ty(b.Share)}
				lines[i] = append(lines[i], at)
				bar := draw.LineStyle{Color: armColor(a.arm), Width: 1}
				c.StrokeLine2(bar, at.X, ty(b.Interval.Low), at.X, ty(b.Interval.High))
				c.StrokeLine2(bar, at.X-3, ty(b.Interval.Low), at.X+3, ty(b.Interval.Low))
				c.StrokeLine2(bar, at.X-3, ty(b.Interval.High), at.X+3, ty(b.Interval.High))
				c.DrawGlyph(draw.GlyphStyle{Color: armColor(a.arm), Radius: 3, Shape: armGlyph(a.arm)}, at)
				if b.Theory != nil {
					theory = append(theory, vg.Point{X: tx(b.Mean), Y: ty(min(*b.Theory, p.Y.Max))})
				}
			}
			c.StrokeLines(armLine(a.arm), lines[i])
			c.StrokeLines(theoryLine(a.arm), theory)
		}
		for i, a := range arms {
			b := badge{arm: a.arm, text: a.key, filled: true}
			if f.wide() {
				b.text += " " + clipped(a.name, 14)
			}
			b.drawNear(c, &place, between(lines, i))
		}
	}))
	return p
}

// between returns points on line i away from its bends, where markers are: first those
// that are furthest from the other lines.
func between(lines [][]vg.Point, i int) []vg.Point {
	line := lines[i]
	if len(line) == 1 {
		return []vg.Point{line[0].Add(vg.Point{X: 26}), line[0].Add(vg.Point{X: -26})}
	}
	points := make([]vg.Point, len(line)-1)
	for j := range points {
		points[j] = line[j].Add(line[j+1]).Scale(0.5)
	}
	away := func(p vg.Point) vg.Length {
		nearest := vg.Length(math.Inf(1))
		for other := range lines {
			for j := 1; other != i && j < len(lines[other]); j++ {
				d := lines[other][j-1].Add(lines[other][j]).Scale(0.5).Sub(p)
				nearest = min(nearest, vg.Length(math.Hypot(float64(d.X), float64(d.Y))))
			}
		}
		return nearest
	}
	slices.SortStableFunc(points, func(p, q vg.Point) int { return cmp.Compare(away(q), away(p)) })
	return points
}

// timeTicks are those of a linear axis of seconds.
func timeTicks(low, high float64) []plot.Tick {
	step := timeStep(high - low)
	var ticks []plot.Tick
	for i := 0; float64(i)*step <= high*(1+1e-9); i++ {
		ticks = append(ticks, plot.Tick{Value: float64(i) * step, Label: tickTime(float64(i) * step)})
	}
	return ticks
}

func timeStep(long float64) float64 { return roundUp(long / 5.5) }
