package view

import (
	"bytes"
	"io"

	"github.com/hybrid-pleg/hybrid-pleg/internal/output"
)

// screen writes lines, and below them a status line that is taken away before each
// write and drawn again after it. Without a status line it only writes.
type screen struct {
	w      io.Writer
	width  func() int
	status bool
	shown  bool
}

// Write implements [io.Writer]. What is written must end with a line's end.
func (s *screen) Write(p []byte) (int, error) {
	if !s.shown {
		return s.w.Write(p)
	}
	s.shown = false
	// In one write, so that nothing flickers.
	if _, err := s.w.Write(append([]byte(erase), p...)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// usualWidth is that of a terminal that does not tell.
const usualWidth = 80

// What a terminal is told: erase the line that the cursor is in and what is below,
// which is more than one if the window became narrower; write without wrapping.
const (
	erase   = "\r\x1b[J"
	noWrap  = "\x1b[?7l"
	wrap    = "\x1b[?7h"
	dim     = "\x1b[2m"
	regular = "\x1b[0m"
)

// draw shows text as the status line.
func (s *screen) draw(text string, colour bool) error {
	if !s.status {
		return nil
	}
	width := s.width()
	if width <= 0 {
		width = usualWidth
	}
	text = output.Fit(text, width-1)
	var b bytes.Buffer
	b.WriteString(erase)
	b.WriteString(noWrap)
	if colour {
		text = dim + text + regular
	}
	b.WriteString(text)
	b.WriteString(wrap)
	s.shown = true
	_, err := s.w.Write(b.Bytes())
	return err
}

// clear takes the status line away.
func (s *screen) clear() error {
	if !s.shown {
		return nil
	}
	s.shown = false
	_, err := io.WriteString(s.w, erase)
	return err
}
