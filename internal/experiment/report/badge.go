package report

import (
	"math"

	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// badge is the label of an arm, on the curve that it names.
type badge struct {
	arm  int
	text string
	// filled: in the arm's colour, otherwise in its outline only.
	filled bool
}

const badgeHeight vg.Length = 17

func (b badge) width() vg.Length {
	return max(badgeHeight, textStyle(inkColor).Width(b.text)+8)
}

func (b badge) box(at vg.Point) vg.Rectangle {
	half := vg.Point{X: b.width() / 2, Y: badgeHeight / 2}
	return vg.Rectangle{Min: at.Sub(half), Max: at.Add(half)}
}

func (b badge) draw(c draw.Canvas, at vg.Point) {
	box := b.box(at)
	path := rounded(box, badgeHeight/2)
	style := textStyle(inkColor)
	c.SetColor(paperColor)
	if b.filled {
		c.SetColor(armColor(b.arm))
		style.Color = paperColor
	}
	c.Fill(path)
	c.SetLineStyle(draw.LineStyle{Color: armColor(b.arm), Width: 1.3})
	c.Stroke(path)
	middled(c, style, at, b.text)
}

// drawNear draws the badge at one of the candidates; where there is no room, a little
// above one, and joined to it.
func (b badge) drawNear(c draw.Canvas, p *placer, candidates []vg.Point) {
	all := candidates
	for _, up := range []vg.Length{22, -22, 42} {
		for _, at := range candidates {
			all = append(all, at.Add(vg.Point{Y: up}))
		}
	}
	at, which := p.place(b, all)
	if from := all[which%len(candidates)]; which >= len(candidates) {
		c.StrokeLine2(draw.LineStyle{Color: armColor(b.arm), Width: 0.8}, from.X, from.Y, at.X, at.Y)
	}
	b.draw(c, at)
}

// middled writes text whose middle is at a point: by the height of its capitals, which
// the eye goes by, not by that of the font.
func middled(c draw.Canvas, style text.Style, at vg.Point, s string) {
	const capitals = 0.73
	style.YAlign = draw.YBottom
	// gonum/plot puts the baseline of such text at its point, plus the size, less the ascent.
	baseline := at.Y - textSize*capitals/2
	c.FillText(style, vg.Point{X: at.X, Y: baseline - textSize + style.FontExtents().Ascent}, s)
}

func rounded(r vg.Rectangle, radius vg.Length) vg.Path {
	var p vg.Path
	p.Move(vg.Point{X: r.Min.X + radius, Y: r.Min.Y})
	p.Arc(vg.Point{X: r.Max.X - radius, Y: r.Min.Y + radius}, radius, -math.Pi/2, math.Pi/2)
	p.Arc(vg.Point{X: r.Max.X - radius, Y: r.Max.Y - radius}, radius, 0, math.Pi/2)
	p.Arc(vg.Point{X: r.Min.X + radius, Y: r.Max.Y - radius}, radius, math.Pi/2, math.Pi/2)
	p.Arc(vg.Point{X: r.Min.X + radius, Y: r.Min.Y + radius}, radius, math.Pi, math.Pi/2)
	p.Close()
	return p
}

// placer puts badges where they don't cover each other.
type placer struct {
	within vg.Rectangle
	taken  []vg.Rectangle
}

// place returns the first of the candidates at which the badge covers no other; if
// there is none, that at which it covers least.
func (p *placer) place(b badge, candidates []vg.Point) (best vg.Point, which int) {
	least := vg.Length(math.Inf(1))
	for i, at := range candidates {
		at = p.inside(b, at)
		box, covered := b.box(at), vg.Length(0)
		for _, other := range p.taken {
			w := min(box.Max.X, other.Max.X) - max(box.Min.X, other.Min.X) + 2
			h := min(box.Max.Y, other.Max.Y) - max(box.Min.Y, other.Min.Y) + 2
			if w > 0 && h > 0 {
				covered += w * h
			}
		}
		if covered < least {
			best, which, least = at, i, covered
		}
		if covered == 0 {
			break
		}
	}
	p.taken = append(p.taken, b.box(best))
	return best, which
}

// inside moves a badge that would stick out.
func (p *placer) inside(b badge, at vg.Point) vg.Point {
	box := b.box(at)
	at.X += max(0, p.within.Min.X-box.Min.X) - max(0, box.Max.X-p.within.Max.X)
	at.Y += max(0, p.within.Min.Y-box.Min.Y) - max(0, box.Max.Y-p.within.Max.Y)
	return at
}

// clipped shortens a name that has no room.
func clipped(name string, runes int) string {
	r := []rune(name)
	if len(r) <= runes {
		return name
	}
	return string(r[:runes-1]) + "…"
}
