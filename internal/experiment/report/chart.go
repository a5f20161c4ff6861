package report

import (
	"bytes"
	"fmt"
	"html"
	"image/color"
	"regexp"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// form is one of the two forms of a chart: text keeps its size when the page becomes
// narrow, and what is around it must make room.
type form struct {
	class         string
	width, height vg.Length
}

func (f form) wide() bool { return f.class == "wide" }

// room is how many labels an X axis has room for.
func (f form) room() int {
	if f.wide() {
		return 12
	}
	return 6
}

// forms are both forms of a chart whose plot is high, in points.
func forms(high vg.Length) []form {
	return []form{{"wide", 800, high}, {"narrow", 350, high}}
}

// The colours that a chart draws with are names: style sheet variables take their
// place, which differ between the light scheme and the dark.
var (
	inkColor   = color.RGBA{0x01, 0x01, 0x01, 0xff}
	mutedColor = color.RGBA{0x02, 0x02, 0x02, 0xff}
	gridColor  = color.RGBA{0x03, 0x03, 0x03, 0xff}
	paperColor = color.RGBA{0x04, 0x04, 0x04, 0xff}
)

// armColors is how many colours the style sheet has for arms. With the dash patterns,
// whose number has no divisor in common with it, a pair comes again only after 40 arms.
const armColors = 8

func armColor(i int) color.Color {
	return color.RGBA{0x0a, 0x00, uint8(i % armColors), 0xff}
}

func armDashes(i int) []vg.Length {
	return [][]vg.Length{nil, {7, 3}, {2.5, 2.5}, {9, 3, 2.5, 3}, {14, 4}}[i%5]
}

func armLine(i int) draw.LineStyle {
	return draw.LineStyle{Color: armColor(i), Width: 1.8, Dashes: armDashes(i)}
}

func theoryLine(i int) draw.LineStyle {
	return draw.LineStyle{Color: armColor(i), Width: 1, Dashes: []vg.Length{1, 3}}
}

func armGlyph(i int) draw.GlyphDrawer {
	return []draw.GlyphDrawer{
		draw.CircleGlyph{}, draw.SquareGlyph{}, draw.PyramidGlyph{}, draw.CrossGlyph{}, draw.RingGlyph{}, draw.PlusGlyph{}, draw.BoxGlyph{}, draw.TriangleGlyph{},
	}[i%8]
}

const textSize = 12.5

func textStyle(c color.Color) text.Style {
	return text.Style{
		Color: c, Font: font.From(font.Font{Typeface: "Liberation", Variant: "Sans"}, textSize),
		XAlign: draw.XCenter, YAlign: draw.YCenter, Handler: plot.DefaultTextHandler,
	}
}

// newPlot makes an empty plot in the style of the page.
func newPlot(x, y string) figure {
	p := plot.New()
	p.BackgroundColor = nil
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		tick := textStyle(inkColor)
		tick.YAlign, tick.XAlign = axis.Tick.Label.YAlign, axis.Tick.Label.XAlign
		axis.Tick.Label = tick
		axis.Color, axis.Tick.Color = mutedColor, mutedColor
		axis.Padding = 0
	}
	p.Add(grid{})
	return figure{p, x, y}
}

// figure is a plot with labels of its own: gonum/plot keeps room for a label of a
// logarithmic axis as if that were linear, and turns that of the Y axis on its side.
type figure struct {
	*plot.Plot
	x, y string
}

func (f figure) drawOn(c draw.Canvas) {
	style := textStyle(mutedColor)
	const line = 21
	area := draw.Crop(c, 1, -1, line, -4)
	if f.y != "" {
		area = draw.Crop(area, 0, 0, 0, -line)
		style.XAlign = draw.XLeft
		middled(c, style, vg.Point{X: c.Min.X, Y: c.Max.Y - 9}, f.y)
	}
	f.Draw(area)
	style.XAlign = draw.XCenter
	data := f.DataCanvas(area)
	// Under the axis, but not over the edge.
	half := style.Width(f.x) / 2
	at := min((data.Min.X+data.Max.X)/2, c.Max.X-half)
	middled(c, style, vg.Point{X: max(at, c.Min.X+half), Y: c.Min.Y + 9}, f.x)
}

// grid draws lines at the labelled ticks.
type grid struct{}

func (grid) Plot(c draw.Canvas, p *plot.Plot) {
	line := draw.LineStyle{Color: gridColor, Width: 0.6}
	tx, ty := p.Transforms(&c)
	for _, t := range p.X.Tick.Marker.Ticks(p.X.Min, p.X.Max) {
		if t.Label != "" && t.Value >= p.X.Min && t.Value <= p.X.Max {
			c.StrokeLine2(line, tx(t.Value), c.Min.Y, tx(t.Value), c.Max.Y)
		}
	}
	for _, t := range p.Y.Tick.Marker.Ticks(p.Y.Min, p.Y.Max) {
		if t.Label != "" && t.Value >= p.Y.Min && t.Value <= p.Y.Max {
			c.StrokeLine2(line, c.Min.X, ty(t.Value), c.Max.X, ty(t.Value))
		}
	}
}

// drawn is a drawing in plot coordinates, as a function.
type drawn func(c draw.Canvas, p *plot.Plot)

func (d drawn) Plot(c draw.Canvas, p *plot.Plot) { d(c, p) }

// room is a plotter that draws nothing and keeps a margin free at the right.
type room struct{ right vg.Length }

func (room) Plot(draw.Canvas, *plot.Plot) {}

func (r room) GlyphBoxes(*plot.Plot) []plot.GlyphBox {
	return []plot.GlyphBox{{X: 1, Y: 0.5, Rectangle: vg.Rectangle{Max: vg.Point{X: r.right}}}}
}

// svg draws p in both forms. The second is for a narrow page; the style sheet shows one
// of them.
func svg(p func(form) figure, high vg.Length, alt string) (string, error) {
	var both strings.Builder
	for _, f := range forms(high) {
		canvas := vgsvg.New(f.width, f.height)
		p(f).drawOn(draw.New(canvas))
		var b bytes.Buffer
		if _, err := canvas.WriteTo(&b); err != nil {
			return "", fmt.Errorf("draw a chart: %w", err)
		}
		both.WriteString(dressed(b.String(), f, alt))
	}
	return both.String(), nil
}

var (
	fontStyle = regexp.MustCompile(`font-family:[^"]*?(font-size:)`)
	textStart = regexp.MustCompile(`<text ([^>]*)>([^<]*)</text>`)
	named24   = regexp.MustCompile(`#(01|02|03|04|0A)(00|01|02|03|04)([0-9A-F]{2})\b`)
)

// dressed makes a drawing part of the page: it scales with it, takes its colours and
// its font, and has its words for those who can't see it.
func dressed(drawing string, f form, alt string) string {
	_, body, _ := strings.Cut(drawing, "<svg")
	_, body, _ = strings.Cut(body, ">")
	body = fontStyle.ReplaceAllString(body, "$1")
	// The reader's font may be wider than the one that was measured with.
	body = textStart.ReplaceAllStringFunc(body, func(t string) string {
		m := textStart.FindStringSubmatch(t)
		width := textStyle(inkColor).Width(html.UnescapeString(m[2]))
		return fmt.Sprintf(`<text textLength="%.4g" lengthAdjust="spacingAndGlyphs" %s>%s</text>`, width.Points(), m[1], m[2])
	})
	body = named24.ReplaceAllStringFunc(body, func(c string) string {
		switch c[1:3] {
		case "01":
			return "var(--ink)"
		case "02":
			return "var(--muted)"
		case "03":
			return "var(--grid)"
		case "04":
			return "var(--paper)"
		default:
			return "var(--c" + c[6:7] + ")"
		}
	})
	return fmt.Sprintf(`<svg class="%s" viewBox="0 0 %g %g" role="img" aria-label="%s">%s`,
		f.class, f.width.Points(), f.height.Points(), html.EscapeString(alt), body)
}
