// Package output writes events for people and for programs.
package output

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	"golang.org/x/term"
)

// Format is a way of writing events.
type Format string

// The formats.
const (
	// Auto is text on a terminal and NDJSON otherwise.
	Auto   Format = "auto"
	NDJSON Format = "ndjson"
	Text   Format = "text"
	None   Format = "none"
)

// ErrFormat marks an unknown format.
var ErrFormat = errors.New("unknown output format")

// ParseFormat reads a format's name.
func ParseFormat(s string) (Format, error) {
	switch f := Format(s); f {
	case Auto, NDJSON, Text, None:
		return f, nil
	default:
		return "", fmt.Errorf("%w %q: give auto, ndjson, text or none", ErrFormat, s)
	}
}

// Writer writes events, one a line. It is not safe for concurrent use.
type Writer interface {
	Write(*event.Event) error
	// Flush hands on what is buffered. It is to be called when no further event is
	// at hand.
	Flush() error
}

// New returns a writer of a format to f, which decides what [Auto] means. On a
// terminal, text keeps to its width and has colours, except where NO_COLOR
// (no-color.org) is set or the terminal is dumb.
func New(format Format, f *os.File, getenv func(string) string) Writer {
	opts, terminal := OptionsFor(f, getenv)
	if format == Auto {
		format = NDJSON
		if terminal {
			format = Text
		}
	}
	switch format {
	case None:
		return discard{}
	case NDJSON:
		return NewNDJSON(f)
	default:
		return NewText(f, opts)
	}
}

// OptionsFor returns how text is to be written to f, and whether it is a terminal.
func OptionsFor(f *os.File, getenv func(string) string) (opts TextOptions, terminal bool) {
	fd := int(f.Fd())
	if !term.IsTerminal(fd) {
		return TextOptions{}, false
	}
	return TextOptions{Colour: Coloured(getenv), Width: func() int {
		width, _, err := term.GetSize(fd)
		if err != nil {
			return 0
		}
		return width
	}}, true
}

// Coloured reports whether a terminal is to get colours, by its environment.
func Coloured(getenv func(string) string) bool {
	return getenv("NO_COLOR") == "" && getenv("TERM") != "dumb"
}

// NewNDJSON returns a writer of one JSON object a line.
func NewNDJSON(w io.Writer) Writer {
	buf := bufio.NewWriter(w)
	enc := json.NewEncoder(buf)
	// The output goes to programs, not into web pages: < and & stay readable.
	enc.SetEscapeHTML(false)
	return &ndjson{enc, buf}
}

type ndjson struct {
	enc *json.Encoder
	buf *bufio.Writer
}

func (n *ndjson) Write(e *event.Event) error { return n.enc.Encode(e) }
func (n *ndjson) Flush() error               { return n.buf.Flush() }

type discard struct{}

func (discard) Write(*event.Event) error { return nil }
func (discard) Flush() error             { return nil }
