package report

import (
	"fmt"
	"math"
	"slices"
	"sort"

	"github.com/hybrid-pleg/hybrid-pleg/internal/experiment/result"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// rows gives the Y axis of a chart one row an arm, from the top.
func rows(p figure, names []string, keys []string, f form) {
	p.Y.Min, p.Y.Max = 0.5, float64(len(names))+0.5
	// Room between the names and the plot, where ticks would be.
	p.Y.Tick.Length, p.Y.Tick.Color = 8, paperColor
	p.Y.Width = 0
	ticks := make([]plot.Tick, len(names))
	for i := range names {
		label := keys[i] + "  " + clipped(names[i], 15)
		if f.wide() {
			label = keys[i] + "  " + clipped(names[i], 24)
		}
		ticks[i] = plot.Tick{Value: rowOf(i, len(names)), Label: label}
	}
	p.Y.Tick.Marker = plot.ConstantTicks(ticks)
}

func rowOf(i, n int) float64 { return float64(n - i) }

func rowsHigh(n int) vg.Length { return 50 + 26*vg.Length(n) }

// bar is one figure of an arm: a mark, and a line from the least to the greatest.
type bar struct {
	arm    int
	value  Range
	square bool // hollow, beside the round and filled
	text   string
}

// costCharts draws what each arm used up.
func costCharts(s *Summary, w *Workload) ([]chart, error) {
	var names, keys []string
	var cpu, calls [][]bar
	attributable, known := false, false
	for i, a := range s.Arms {
		at := slices.IndexFunc(w.Arms, func(f Figures) bool { return f.Arm == a.Name })
		if at < 0 || w.Arms[at].Cost == nil {
			continue
		}
		c := w.Arms[at].Cost
		names, keys = append(names, a.Name), append(keys, a.Key)
		row := []bar{{arm: i, value: c.CPU, text: Share(c.CPU.Mean)}}
		if c.Attributable {
			attributable = true
			row = append(row, bar{arm: i, value: c.RuntimeCPU, square: true, text: Share(c.RuntimeCPU.Mean)})
		}
		cpu = append(cpu, row)
		row = nil
		if c.RPCs != nil {
			known = true
			row = []bar{{arm: i, value: *c.RPCs, text: Digits(c.RPCs.Mean)}}
		}
		calls = append(calls, row)
	}
	if len(names) == 0 {
		return nil, nil
	}
	repeats := ""
	if slices.ContainsFunc(w.Arms, func(f Figures) bool { return f.Cost != nil && f.Cost.Repeats > 1 }) {
		repeats = " The mark is the mean of the repeats, the line goes from the least to the greatest."
	}
	caption := "Dot: processor time of the generator per second." + repeats
	if attributable {
		caption = "Dot: processor time of the generator per second. Square: of the runtime in the same time." + repeats
	}
	var charts []chart
	add := func(title, axis, caption string, figures [][]bar, label func(float64) string) error {
		alt := title + "."
		for i, row := range figures {
			for _, b := range row {
				alt += " " + names[i] + " " + b.text + "."
			}
		}
		drawing, err := svg(func(f form) figure { return costPlot(names, keys, figures, axis, label, f) }, rowsHigh(len(names)), alt)
		if err == nil {
			charts = append(charts, chart{Title: title, SVG: drawing, Caption: caption})
		}
		return err
	}
	if err := add("Processor time", "share of one processor (logarithmic)", caption, cpu, tickShare); err != nil {
		return nil, err
	}
	if known {
		if err := add("Calls of the runtime", "calls a minute (logarithmic)", "All CRI calls of the arm."+repeats, calls, tickCount); err != nil {
			return nil, err
		}
	}
	return charts, nil
}

func costPlot(names, keys []string, figures [][]bar, axis string, label func(float64) string, f form) figure {
	low, high := math.Inf(1), math.Inf(-1)
	for _, row := range figures {
		for _, b := range row {
			if b.value.Mean > 0 {
				low = min(low, b.value.Mean)
			}
			high = max(high, b.value.Max)
		}
	}
	if high <= 0 || math.IsInf(low, 1) {
		low, high = 0.001, 0.01
	}
	p := newPlot(axis, "")
	rows(p, names, keys, f)
	logAxis(&p.X, low, max(high, 2*low), label, f.room()-2)
	if high == low {
		p.X.Min, p.X.Max = roundDown(low/2), roundUp(high*2)
	}
	p.Add(room{right: 46}, drawn(func(c draw.Canvas, p *plot.Plot) {
		tx, ty := p.Transforms(&c)
		x := func(v float64) vg.Length { return tx(max(v, p.X.Min)) }
		for i, row := range figures {
			y := ty(rowOf(i, len(figures)))
			sort.SliceStable(row, func(a, b int) bool { return row[a].value.Mean < row[b].value.Mean })
			for j, b := range row {
				c.StrokeLine2(draw.LineStyle{Color: armColor(b.arm), Width: 1.2}, x(b.value.Min), y, x(b.value.Max), y)
				glyph := draw.GlyphStyle{Color: armColor(b.arm), Radius: 4.5, Shape: draw.CircleGlyph{}}
				if b.square {
					glyph.Shape, glyph.Radius = draw.SquareGlyph{}, 4.5
				}
				c.DrawGlyphNoClip(glyph, vg.Point{X: x(b.value.Mean), Y: y})
				// Two figures near each other: one label on each side.
				style := textStyle(mutedColor)
				style.XAlign = draw.XLeft
				at := x(max(b.value.Mean, b.value.Max)) + 8
				if j == 0 && len(row) > 1 {
					at = x(min(b.value.Mean, b.value.Min)) - 8
					style.XAlign = draw.XRight
					if at-style.Width(b.text) < c.Min.X {
						continue
					}
				}
				middled(c, style, vg.Point{X: at, Y: y}, b.text)
			}
		}
	}))
	return p
}

// tradePoint is an arm in the chart of latency against cost.
type tradePoint struct {
	arm       int
	key, name string
	cost      float64
	p50, p90  float64
	dominated bool
	chain     string // arms of one chain differ in the period only
	period    float64
}

// tradeCharts draws latency against cost.
func tradeCharts(s *Summary, w *Workload) ([]chart, error) {
	attributable := true
	var points []tradePoint
	for i, a := range s.Arms {
		at := slices.IndexFunc(w.Arms, func(f Figures) bool { return f.Arm == a.Name })
		if at < 0 {
			continue
		}
		f := &w.Arms[at]
		l := f.best(result.Exit)
		if l == nil || f.Cost == nil || f.Cost.CPU.Mean <= 0 || l.P50.Value <= 0 {
			continue
		}
		attributable = attributable && f.Cost.Attributable
		t := tradePoint{arm: i, key: a.Key, name: a.Name, cost: f.Cost.Total(), p50: l.P50.Value, p90: l.P90.Value, dominated: f.Dominated}
		if f.Theory != nil {
			t.chain, t.period = a.Kind, f.Theory.Period
		}
		points = append(points, t)
	}
	if len(points) < 2 {
		return nil, nil
	}
	axis := "processor time of the generator"
	if attributable {
		axis = "processor time of generator and runtime"
	}
	caption := fmt.Sprintf("Left and low is good. Each badge is at the median of exits, its line goes up to the 90%s%% quantile; grey lines join arms that differ only in the period. "+
		"An empty badge: another arm is as good in latency, share missed and processor time, and better in one.", nbsp)
	alt := "Latency of exits against cost."
	curves := make([]armCurve, len(points))
	for i, t := range points {
		curves[i] = armCurve{arm: t.arm, key: t.key, name: t.name}
		alt += fmt.Sprintf(" %s: %s at %s.", t.name, Duration(t.p50), Share(t.cost))
	}
	drawing, err := svg(func(f form) figure { return tradePlot(points, axis, f) }, 380, alt)
	if err != nil {
		return nil, err
	}
	return []chart{{Title: "Latency against cost", SVG: drawing, Caption: caption, Keys: keysOf(s, curves)}}, nil
}

func tradePlot(points []tradePoint, axis string, f form) figure {
	low, high, fast, slow := math.Inf(1), 0.0, math.Inf(1), 0.0
	for _, t := range points {
		low, high = min(low, t.cost), max(high, t.cost)
		fast, slow = min(fast, t.p50), max(slow, t.p90)
	}
	if f.wide() {
		axis += " (share of one, logarithmic)"
	}
	p := newPlot(axis, "latency of exits (logarithmic)")
	logAxis(&p.X, low, max(high, low*2), tickShare, f.room())
	logAxis(&p.Y, fast, max(slow, fast*2), tickTime, 9)
	p.X.Padding, p.Y.Padding = 12, 12
	p.Add(drawn(func(c draw.Canvas, p *plot.Plot) {
		tx, ty := p.Transforms(&c)
		chains := map[string][]tradePoint{}
		for _, t := range points {
			if t.chain != "" {
				chains[t.chain] = append(chains[t.chain], t)
			}
		}
		for _, chain := range chains {
			sort.Slice(chain, func(a, b int) bool { return chain[a].period < chain[b].period })
			line := make([]vg.Point, len(chain))
			for i, t := range chain {
				line[i] = vg.Point{X: tx(t.cost), Y: ty(t.p50)}
			}
			c.StrokeLines(draw.LineStyle{Color: mutedColor, Width: 1}, line)
		}
		place := placer{within: vg.Rectangle{Min: c.Min.Sub(vg.Point{X: 12, Y: 12}), Max: c.Max.Add(vg.Point{X: 12, Y: 12})}}
		for _, t := range points {
			at := vg.Point{X: tx(t.cost), Y: ty(t.p50)}
			c.StrokeLine2(draw.LineStyle{Color: armColor(t.arm), Width: 1.2}, at.X, at.Y, at.X, ty(t.p90))
			c.StrokeLine2(draw.LineStyle{Color: armColor(t.arm), Width: 1.2}, at.X-4, ty(t.p90), at.X+4, ty(t.p90))
			c.DrawGlyph(draw.GlyphStyle{Color: armColor(t.arm), Radius: 2, Shape: draw.CircleGlyph{}}, at)
		}
		for _, t := range points {
			at := vg.Point{X: tx(t.cost), Y: ty(t.p50)}
			b := badge{arm: t.arm, text: t.key, filled: !t.dominated}
			if f.wide() && len(points) <= perPanel {
				b.text += " " + clipped(t.name, 14)
			}
			var around []vg.Point
			for radius := vg.Length(0); radius <= 60; radius += 10 {
				for turn := range 8 {
					sin, cos := math.Sincos(float64(turn) * math.Pi / 4)
					around = append(around, at.Add(vg.Point{X: radius * vg.Length(cos), Y: radius * vg.Length(sin)}))
				}
			}
			to, _ := place.place(b, around)
			c.StrokeLine2(draw.LineStyle{Color: armColor(t.arm), Width: 0.8}, at.X, at.Y, to.X, to.Y)
			b.draw(c, to)
		}
	}))
	return p
}
