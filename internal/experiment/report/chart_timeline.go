package report

import (
	"fmt"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// timelineChart draws what each arm knew of one container, and when.
func timelineChart(s *Summary, t *Timeline) (chart, error) {
	alt := "What each arm knew of container " + t.Container + "."
	for _, r := range t.Rows {
		alt += " " + r.Arm + ": start " + at(r.Start) + ", exit " + at(r.Exit) + "."
	}
	drawing, err := svg(func(f form) figure { return timelinePlot(s, t, f) }, rowsHigh(len(t.Rows))+18, alt)
	if err != nil {
		return chart{}, err
	}
	caption := "Triangle: the arm told the start (hollow: only inferred). Square: it told the exit. Cross: the removal. Between start and exit, a thick line: the arm took it for running. " + t.Why
	return chart{Title: "One container, as each arm knew it", SVG: drawing, Caption: caption, Moments: t.Moments}, nil
}

func at(v *float64) string {
	if v == nil {
		return "never told"
	}
	return "told at " + Duration(*v)
}

func timelinePlot(s *Summary, t *Timeline, f form) figure {
	low, high := math.Inf(1), 0.0
	see := func(v float64) {
		if v > 0 {
			low, high = min(low, v), max(high, v)
		}
	}
	var names, keys []string
	for _, r := range t.Rows {
		names, keys = append(names, r.Arm), append(keys, r.Key)
		for _, v := range []*float64{r.Start, r.Exit, r.Removed} {
			if v != nil {
				see(*v)
			}
		}
	}
	for _, m := range t.Moments {
		see(m.At)
	}
	if math.IsInf(low, 1) {
		low, high = 1e-3, 1
	}
	p := newPlot("time since the kernel started it (logarithmic)", "")
	rows(p, names, keys, f)
	// A row for the numbers of the moments.
	p.Y.Max += 0.7
	logAxis(&p.X, max(low, 1e-4), max(high, 10*low), tickTime, f.room()-2)
	p.Add(room{right: 8}, drawn(func(c draw.Canvas, p *plot.Plot) {
		tx, ty := p.Transforms(&c)
		x := func(v float64) vg.Length { return tx(min(max(v, p.X.Min), p.X.Max)) }
		flags := placer{within: vg.Rectangle{Min: vg.Point{X: c.Min.X - 9, Y: c.Min.Y}, Max: vg.Point{X: c.Max.X + 9, Y: c.Max.Y + 1}}}
		for i, m := range t.Moments {
			line := draw.LineStyle{Color: inkColor, Width: 1, Dashes: armDashes(i)}
			c.StrokeLine2(line, x(m.At), c.Min.Y, x(m.At), c.Max.Y-16)
			number := badge{text: fmt.Sprint(i + 1)}
			home := vg.Point{X: x(m.At), Y: c.Max.Y - 8}
			flag, _ := flags.place(number, []vg.Point{home, home.Add(vg.Point{X: 19}), home.Add(vg.Point{X: -19}), home.Add(vg.Point{X: 38}), home.Add(vg.Point{X: 57})})
			style := textStyle(inkColor)
			c.SetColor(paperColor)
			c.Fill(rounded(number.box(flag), badgeHeight/2))
			c.SetLineStyle(draw.LineStyle{Color: inkColor, Width: 1})
			c.Stroke(rounded(number.box(flag), badgeHeight/2))
			middled(c, style, flag, number.text)
		}
		for i, r := range t.Rows {
			arm := armIndex(s, r.Arm)
			y := ty(rowOf(i, len(t.Rows)))
			mark := func(v float64, shape draw.GlyphDrawer, radius vg.Length) {
				c.DrawGlyphNoClip(draw.GlyphStyle{Color: armColor(arm), Radius: radius, Shape: shape}, vg.Point{X: x(v), Y: y})
			}
			if r.Start != nil && r.Exit != nil && *r.Exit > *r.Start {
				c.StrokeLine2(draw.LineStyle{Color: armColor(arm), Width: 4}, x(*r.Start), y, x(*r.Exit), y)
			}
			switch {
			case r.Start != nil && r.Inferred:
				mark(*r.Start, draw.TriangleGlyph{}, 6)
			case r.Start != nil:
				mark(*r.Start, draw.PyramidGlyph{}, 6)
			}
			if r.Exit != nil {
				mark(*r.Exit, draw.BoxGlyph{}, 4.5)
			}
			if r.Removed != nil {
				mark(*r.Removed, draw.CrossGlyph{}, 5)
			}
			if r.Start == nil && r.Exit == nil {
				style := textStyle(mutedColor)
				style.XAlign = draw.XRight
				backed(c, style, vg.Point{X: c.Max.X, Y: y}, "never told")
			}
		}
	}))
	return p
}

// backed writes text that ends at a point, on paper, so that lines don't run through it.
func backed(c draw.Canvas, style draw.TextStyle, end vg.Point, s string) {
	width := style.Width(s)
	c.SetColor(paperColor)
	c.Fill(vg.Rectangle{Min: vg.Point{X: end.X - width - 3, Y: end.Y - 8}, Max: vg.Point{X: end.X + 2, Y: end.Y + 8}}.Path())
	middled(c, style, end, s)
}

func armIndex(s *Summary, name string) int {
	for i, a := range s.Arms {
		if a.Name == name {
			return i
		}
	}
	return 0
}
