package output

import (
	"bufio"
	"cmp"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
)

// TextOptions are the settings of [NewText]. The zero value is for a file.
type TextOptions struct {
	Colour bool
	// Width tells how many columns a line may take; nil, or a result of 0: any
	// number. It is asked for each line, since windows change.
	Width func() int
	// Wide adds whole IDs, the image, the pid and the cgroup, however wide that gets.
	Wide bool
}

// NewText returns a writer of lines to be read at a glance: when, what, of which
// pod and container, and how it was found out.
func NewText(w io.Writer, opts TextOptions) Writer {
	if opts.Width == nil || opts.Wide {
		opts.Width = func() int { return 0 }
	}
	return &text{buf: bufio.NewWriter(w), opts: opts, who: leastWho}
}

// text keeps the column width that the lines so far have needed, within bounds,
// so that lines stay aligned without knowing what is to come.
type text struct {
	buf  *bufio.Writer
	opts TextOptions
	who  int
	line strings.Builder
}

// The columns, and what lies between them.
const (
	leastWho = 42
	mostWho  = 56
	idWidth  = 12
	gap      = "  "
	// detailsWidth is what the details take in most lines, and leastDetails how a
	// container ended.
	detailsWidth = 32
	leastDetails = 20
	// narrowestWho is what a name keeps on the narrowest terminal.
	narrowestWho = 16
)

// look is how an event type looks on a line.
type look struct {
	mark, word string
	colour     string // an SGR parameter
}

const wordWidth = 12

func lookOf(e *event.Event) look {
	switch e.Type {
	case event.SandboxStarted:
		return look{"▲", "sandbox up", cyan}
	case event.ContainerCreated:
		return look{"○", "created", blue}
	case event.ContainerStarted:
		return look{"●", "started", green}
	case event.ContainerDied:
		if failed(e) {
			return look{"✕", "died", red}
		}
		return look{"✓", "died", yellow}
	case event.ContainerRemoved:
		return look{"·", "removed", grey}
	case event.SandboxDied:
		return look{"▽", "sandbox down", magenta}
	case event.SandboxRemoved:
		return look{"·", "sandbox gone", grey}
	default:
		return look{"↻", "sync", yellow}
	}
}

// failed reports whether a container's end is to catch the eye: what is not known
// to have gone well did not.
func failed(e *event.Event) bool {
	return e.Status == nil || e.Status.ExitCode == nil || *e.Status.ExitCode != 0
}

// Write implements [Writer].
func (t *text) Write(e *event.Event) error {
	l := lookOf(e)
	who, id := subject(e)
	cols := t.fit(t.opts.Width(), columns(who))
	cols.id = cols.id && !t.opts.Wide // the whole one comes later

	b := &t.line
	b.Reset()
	b.WriteString(t.paint(grey, e.Time.Local().Format(cols.clock)))
	b.WriteString(gap)
	b.WriteString(t.paint(l.colour, l.mark+" "+pad(l.word, wordWidth)))
	b.WriteString(gap)
	who = shorten(who, cols.who)
	b.WriteString(t.paintSubject(who))
	b.WriteString(strings.Repeat(" ", max(0, cols.who-columns(who))))
	if cols.id {
		b.WriteString(gap)
		b.WriteString(t.paint(grey, pad(id, idWidth)))
	}
	t.writeDetails(e, cols.details)
	b.WriteByte('\n')
	_, err := t.buf.WriteString(b.String())
	return err
}

// Flush implements [Writer].
func (t *text) Flush() error { return t.buf.Flush() }

// columnsFit says how wide the columns of one line are.
type columnsFit struct {
	clock   string
	who     int
	id      bool
	details int // -1: any
}

// fit chooses the columns for a line of a width (0: any) whose subject is need
// columns wide. As the line becomes narrower the ID goes first, then the
// milliseconds, and then the subject is shortened.
func (t *text) fit(width, need int) columnsFit {
	t.who = min(max(t.who, need), mostWho)
	c := columnsFit{clock: "15:04:05.000", who: t.who, id: true, details: -1}
	if width <= 0 {
		c.who = max(t.who, need)
		return c
	}
	left := func() int {
		n := width - len(c.clock) - len(gap) - 2 - wordWidth - len(gap) - c.who
		if c.id {
			n -= len(gap) + idWidth
		}
		return n
	}
	if left() < detailsWidth {
		c.id = false
	}
	if left() < detailsWidth {
		c.clock = "15:04:05"
	}
	if short := leastDetails - left(); short > 0 {
		c.who = max(c.who-short, narrowestWho)
	}
	c.details = max(0, left())
	return c
}

// subject says what an event is about, and its ID.
func subject(e *event.Event) (who, id string) {
	who, id = clean(e.Pod.Name, nameWidth), e.Pod.UID
	if who == "" {
		who = clean(e.Pod.UID, nameWidth)
	}
	if e.Pod.Namespace != "" {
		who = clean(e.Pod.Namespace, nameWidth) + "/" + who
	}
	if e.Container != nil {
		who += "/" + clean(e.Container.Name, nameWidth)
		if e.Container.Attempt > 0 {
			who += "#" + strconv.FormatUint(uint64(e.Container.Attempt), 10)
		}
	}
	id = cmp.Or(e.ItemID(), id)
	// Without a mark where it is cut, so that it can be copied into crictl.
	return who, display.Truncate(clean(id, nameWidth), idWidth, "")
}

// detail is a piece of a line's end.
type detail struct{ text, colour string }

// writeDetails writes what is worth knowing beyond the change itself, as far as
// there is room; -1: all of it. Only the first, which tells most, is cut to fit.
func (t *text) writeDetails(e *event.Event, room int) {
	all := details(e)
	if t.opts.Wide {
		all = append(all, more(e)...)
	}
	for i, d := range all {
		if room >= 0 {
			if i == 0 {
				d.text = cut(d.text, max(0, room-len(gap)))
			}
			if room -= len(gap) + columns(d.text); room < 0 || d.text == "" {
				return
			}
		}
		t.line.WriteString(gap)
		t.line.WriteString(t.paint(d.colour, d.text))
	}
}

func details(e *event.Event) []detail {
	var out []detail
	if s := e.Status; s != nil && e.Type == event.ContainerDied {
		if s.ExitCode != nil {
			d := detail{text: "exit " + strconv.Itoa(int(*s.ExitCode))}
			if s.Reason != "" && s.Reason != "Completed" && s.Reason != "Error" {
				d.text += " " + clean(s.Reason, reasonWidth)
			}
			if failed(e) {
				d.colour = red
			}
			out = append(out, d)
		}
		if !s.StartedAt.IsZero() && s.FinishedAt.After(s.StartedAt) {
			out = append(out, detail{text: "ran " + brief(s.FinishedAt.Sub(s.StartedAt))})
		}
	}
	if e.StatusMissing != "" {
		out = append(out, detail{"details " + string(e.StatusMissing), yellow})
	}
	if e.Inferred {
		out = append(out, detail{text: "inferred"})
	}
	found := string(e.Detection.FoundBy)
	if e.Detection.Trigger != "" {
		found = clean(e.Detection.Trigger, nameWidth)
		if after := e.Time.Sub(e.Detection.SignalAt); !e.Detection.SignalAt.IsZero() && after >= 0 {
			found += " +" + brief(after)
		}
	}
	return append(out, detail{found, grey})
}

// more is what only a wide line has room for.
func more(e *event.Event) []detail {
	var out []detail
	add := func(what, text string) {
		if text = clean(text, 4*nameWidth); text != "" {
			out = append(out, detail{what + text, grey})
		}
	}
	switch {
	case e.Container != nil:
		add("", e.Container.ID)
		add("image ", e.Container.Image)
	case e.Sandbox != nil:
		add("", e.Sandbox.ID)
	}
	if s := e.Status; s != nil {
		if s.Pid > 0 {
			add("pid ", strconv.Itoa(s.Pid))
		}
		add("cgroup ", s.CgroupPath)
	}
	return out
}

// brief rounds a duration to what a glance takes in.
func brief(d time.Duration) string {
	switch {
	case d < time.Second:
		return strconv.FormatFloat(float64(d)/float64(time.Millisecond), 'f', precision(d), 64) + "ms"
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	default:
		return d.Round(time.Second).String()
	}
}

func precision(d time.Duration) int {
	if d < 10*time.Millisecond {
		return 1
	}
	return 0
}
