package output

import (
	"strconv"
	"strings"
	"unicode"

	"github.com/mattn/go-runewidth"
)

// SGR parameters of a terminal's own palette, so that the user's theme decides.
const (
	bold    = "1"
	red     = "31"
	green   = "32"
	yellow  = "33"
	blue    = "34"
	magenta = "35"
	cyan    = "36"
	grey    = "90"
)

// paint colours s; with no colour it stays as it is.
func (t *text) paint(sgr, s string) string { return paint(t.opts.Colour, sgr, s) }

func paint(on bool, sgr, s string) string {
	if !on || sgr == "" || s == "" {
		return s
	}
	return "\x1b[" + sgr + "m" + s + "\x1b[0m"
}

// paintSubject lifts what the event is about, the last of the names, off the rest.
func (t *text) paintSubject(who string) string {
	last := strings.LastIndexByte(who, '/') + 1
	return who[:last] + t.paint(bold, who[last:])
}

// The longest that names and reasons get to be on a line, in columns.
const (
	nameWidth   = 200
	reasonWidth = 40
)

// clean keeps what others named from breaking the line, or the terminal: what is
// not printable shows as an escape, and what is longer than width is cut.
func clean(s string, width int) string {
	// Not all of a megabyte is looked at for the sake of one line.
	if most := 4 * width; len(s) > most {
		s = s[:most]
	}
	s = strings.ToValidUTF8(s, "\uFFFD")
	if strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) >= 0 {
		quoted := strconv.Quote(s)
		s = quoted[1 : len(quoted)-1]
	}
	return cut(s, width)
}

// display measures as terminals do outside of East Asian locales. It is not the
// package's default, which asks the environment.
var display = &runewidth.Condition{StrictEmojiNeutral: true}

// columns is the width of s on a terminal: a CJK character takes two columns, a
// combining mark none.
func columns(s string) int { return display.StringWidth(s) }

func pad(s string, width int) string { return display.FillRight(s, width) }

// cut takes the end off what is too wide.
func cut(s string, width int) string { return display.Truncate(s, width, "…") }

// shorten takes the middle out of what is too wide: of a subject, the namespace at
// its beginning and the container at its end tell most.
func shorten(s string, width int) string {
	have := columns(s)
	if have <= width {
		return s
	}
	head := width / 3
	front := display.Truncate(s, head, "")
	back := display.TruncateLeft(s, have-(width-columns(front)-1), "")
	return front + "…" + back
}

// Fit makes s, from wherever it comes, one line of a terminal that is no wider than
// width columns.
func Fit(s string, width int) string { return clean(s, max(0, width)) }
