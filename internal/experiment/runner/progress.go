package runner

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/mattn/go-runewidth"
	"golang.org/x/term"
)

// Progress tells how far an experiment is: on a terminal in one line that is redrawn,
// elsewhere in a line now and then. What is said besides stands above. Its methods are
// safe for concurrent use; a nil Progress says nothing.
type Progress struct {
	file     *os.File
	terminal bool

	mu     sync.Mutex
	what   string
	ends   time.Time // of everything, as estimated
	drawn  bool
	told   time.Time
	detail func() string
	stop   chan struct{}
	once   sync.Once
	done   sync.WaitGroup
}

// How often the line is redrawn on a terminal, and said elsewhere.
const (
	redraw = 250 * time.Millisecond
	retell = 30 * time.Second
)

// NewProgress shows progress on f until Close. Nil is nowhere.
func NewProgress(f *os.File) *Progress {
	if f == nil {
		return nil
	}
	p := &Progress{file: f, terminal: term.IsTerminal(int(f.Fd())), stop: make(chan struct{})}
	p.done.Go(p.run)
	return p
}

func (p *Progress) run() {
	tick := time.NewTicker(redraw)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			p.mu.Lock()
			p.draw()
			p.mu.Unlock()
		case <-p.stop:
			return
		}
	}
}

// Stage says what is being done, and when everything will be, by estimate. detail, which
// may be nil, is asked for how far it is.
func (p *Progress) Stage(what string, left time.Duration, detail func() string) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.what != what {
		p.told = time.Time{}
	}
	p.what, p.ends, p.detail = what, time.Now().Add(left), detail
	p.draw()
}

// Say writes a line that stays.
func (p *Progress) Say(format string, args ...any) {
	if p == nil {
		return
	}
	_, _ = p.Write(fmt.Appendf(nil, format+"\n", args...))
}

// Write writes text that stays; it is for the output of builds.
func (p *Progress) Write(text []byte) (int, error) {
	if p == nil {
		return len(text), nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.erase()
	if p.terminal {
		// The cursor may be in the middle of a line that is still being written.
		p.what = ""
	}
	if _, err := p.file.Write(text); err != nil {
		return 0, err
	}
	return len(text), nil
}

// Close erases the line. It is safe to call it again.
func (p *Progress) Close() {
	if p == nil {
		return
	}
	p.once.Do(func() { close(p.stop) })
	p.done.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.erase()
}

func (p *Progress) erase() {
	if p.drawn {
		fmt.Fprint(p.file, "\r\x1b[K")
		p.drawn = false
	}
}

func (p *Progress) draw() {
	if p.what == "" {
		return
	}
	if !p.terminal {
		if !p.told.IsZero() && time.Since(p.told) < retell {
			return
		}
		p.told = time.Now()
		fmt.Fprintln(p.file, p.line())
		return
	}
	width, _, err := term.GetSize(int(p.file.Fd()))
	if err != nil || width <= 1 {
		width = 80
	}
	var out bytes.Buffer
	out.WriteString("\r" + runewidth.Truncate(p.line(), width-1, "…") + "\x1b[K")
	_, _ = p.file.Write(out.Bytes())
	p.drawn = true
}

func (p *Progress) line() string {
	parts := []string{p.what}
	if p.detail != nil {
		if d := p.detail(); d != "" {
			parts = append(parts, d)
		}
	}
	if left := time.Until(p.ends); left > 0 {
		parts = append(parts, "about "+roughly(left)+" left")
	} else {
		parts = append(parts, "takes longer than expected")
	}
	return strings.Join(parts, " · ")
}

// roughly is a duration as one would say it.
func roughly(d time.Duration) string {
	switch d = max(0, d); {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Round(time.Second).Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	default:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
}
