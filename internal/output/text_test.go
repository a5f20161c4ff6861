package output

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
)

var noon = time.Date(2026, 3, 4, 12, 0, 0, 5e6, time.Local)

func ptr[T any](v T) *T { return &v }

// sample is an event of a type as the generator would make it.
func sample(typ event.Type) *event.Event {
	e := &event.Event{
		Epoch: "e", Sequence: 1, Type: typ, Time: noon,
		Pod:       event.Pod{UID: "11111111-2222-3333-4444-555555555555", Namespace: "shop", Name: "web-6pf4p"},
		Sandbox:   &event.Sandbox{ID: "5a5a5a5a5a5a5a5a"},
		Container: &event.Container{ID: "c0c0c0c0c0c0c0c0", Name: "api"},
		Detection: event.Detection{FoundBy: event.FoundEarly, Trigger: "cri", SignalAt: noon.Add(-1200 * time.Microsecond), ObservedAt: noon},
	}
	switch typ {
	case event.SandboxStarted, event.SandboxDied, event.SandboxRemoved:
		e.Container = nil
	}
	return e
}

func lines(t *testing.T, opts TextOptions, events ...*event.Event) []string {
	t.Helper()
	var buf bytes.Buffer
	w := NewText(&buf, opts)
	for _, e := range events {
		if err := w.Write(e); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	out := strings.Split(buf.String(), "\n")
	if out[len(out)-1] != "" || len(out) != len(events)+1 {
		t.Fatalf("%d events gave %d lines:\n%s", len(events), len(out)-1, buf.String())
	}
	return out[:len(out)-1]
}

func TestTextLines(t *testing.T) {
	died := func(change func(*event.Event)) *event.Event {
		e := sample(event.ContainerDied)
		e.Status = &event.Status{StartedAt: noon.Add(-90 * time.Second), FinishedAt: noon, ExitCode: ptr(int32(0)), Reason: "Completed"}
		change(e)
		return e
	}
	with := func(typ event.Type, change func(*event.Event)) *event.Event {
		e := sample(typ)
		change(e)
		return e
	}
	tests := []struct {
		e    *event.Event
		want string
	}{
		{sample(event.SandboxStarted), "12:00:00.005  ▲ sandbox up    shop/web-6pf4p                              5a5a5a5a5a5a  cri +1.2ms"},
		{sample(event.ContainerCreated), "12:00:00.005  ○ created       shop/web-6pf4p/api                          c0c0c0c0c0c0  cri +1.2ms"},
		{sample(event.ContainerStarted), "12:00:00.005  ● started       shop/web-6pf4p/api                          c0c0c0c0c0c0  cri +1.2ms"},
		{died(func(*event.Event) {}), "12:00:00.005  ✓ died          shop/web-6pf4p/api                          c0c0c0c0c0c0  exit 0  ran 1m30s  cri +1.2ms"},
		{sample(event.ContainerRemoved), "12:00:00.005  · removed       shop/web-6pf4p/api                          c0c0c0c0c0c0  cri +1.2ms"},
		{sample(event.SandboxDied), "12:00:00.005  ▽ sandbox down  shop/web-6pf4p                              5a5a5a5a5a5a  cri +1.2ms"},
		{sample(event.SandboxRemoved), "12:00:00.005  · sandbox gone  shop/web-6pf4p                              5a5a5a5a5a5a  cri +1.2ms"},
		{sample(event.PodSync), "12:00:00.005  ↻ sync          shop/web-6pf4p/api                          c0c0c0c0c0c0  cri +1.2ms"},

		{died(func(e *event.Event) { e.Status.ExitCode, e.Status.Reason = ptr(int32(137)), "OOMKilled" }),
			"12:00:00.005  ✕ died          shop/web-6pf4p/api                          c0c0c0c0c0c0  exit 137 OOMKilled  ran 1m30s  cri +1.2ms"},
		{died(func(e *event.Event) { e.Status.ExitCode, e.Status.Reason = ptr(int32(3)), "Error" }),
			"12:00:00.005  ✕ died          shop/web-6pf4p/api                          c0c0c0c0c0c0  exit 3  ran 1m30s  cri +1.2ms"},
		{died(func(e *event.Event) { e.Status, e.StatusMissing = nil, event.StatusGone }),
			"12:00:00.005  ✕ died          shop/web-6pf4p/api                          c0c0c0c0c0c0  details gone  cri +1.2ms"},
		{died(func(e *event.Event) { e.Status.FinishedAt = e.Status.StartedAt.Add(-time.Hour) }), // the clock went back
			"12:00:00.005  ✓ died          shop/web-6pf4p/api                          c0c0c0c0c0c0  exit 0  cri +1.2ms"},
		{with(event.ContainerStarted, func(e *event.Event) { e.Inferred = true; e.Container.Attempt = 4 }),
			"12:00:00.005  ● started       shop/web-6pf4p/api#4                        c0c0c0c0c0c0  inferred  cri +1.2ms"},
		{with(event.ContainerStarted, func(e *event.Event) { e.Detection.SignalAt = noon.Add(time.Hour) }),
			"12:00:00.005  ● started       shop/web-6pf4p/api                          c0c0c0c0c0c0  cri"},
		{with(event.ContainerStarted, func(e *event.Event) { e.Detection = event.Detection{FoundBy: event.FoundPeriodic} }),
			"12:00:00.005  ● started       shop/web-6pf4p/api                          c0c0c0c0c0c0  periodic"},
		// Of a whole pod, whichever of its sandboxes it carries.
		{with(event.PodSync, func(e *event.Event) { e.Container = nil }),
			"12:00:00.005  ↻ sync          shop/web-6pf4p                              11111111-222  cri +1.2ms"},
		{with(event.PodSync, func(e *event.Event) { e.Container, e.Sandbox = nil, nil }),
			"12:00:00.005  ↻ sync          shop/web-6pf4p                              11111111-222  cri +1.2ms"},
		{with(event.ContainerStarted, func(e *event.Event) { e.Pod.Namespace, e.Pod.Name, e.Container.Name = "", "", "" }),
			"12:00:00.005  ● started       11111111-2222-3333-4444-555555555555/       c0c0c0c0c0c0  cri +1.2ms"},
		{with(event.ContainerStarted, func(e *event.Event) { e.Pod.Name = "日本語のポッド" }), // two columns a character
			"12:00:00.005  ● started       shop/日本語のポッド/api                     c0c0c0c0c0c0  cri +1.2ms"},
		{with(event.ContainerStarted, func(e *event.Event) { e.Container.Name = "cafe\u0301" }), // an accent takes none
			"12:00:00.005  ● started       shop/web-6pf4p/cafe\u0301                         c0c0c0c0c0c0  cri +1.2ms"},
		{with(event.ContainerStarted, func(e *event.Event) { e.Container.Name = "a\nb\x1b[31m\xff" }),
			`12:00:00.005  ● started       shop/web-6pf4p/a\nb\x1b[31m�                c0c0c0c0c0c0  cri +1.2ms`},
		{with(event.ContainerStarted, func(e *event.Event) { e.Container.Name = "\u202egnp.exe" }), // right to left from here
			`12:00:00.005  ● started       shop/web-6pf4p/\u202egnp.exe                c0c0c0c0c0c0  cri +1.2ms`},
	}
	for _, test := range tests {
		if got := lines(t, TextOptions{}, test.e)[0]; got != test.want {
			t.Errorf("%s\n got %s\nwant %s", test.e.Type, got, test.want)
		}
	}
}

// nasty are strings that a runtime may well hand on.
var nasty = map[string]string{
	"newline":     "a\nb\r\nc\u2028d\u2029e\x85f",
	"escapes":     "\x1b]0;title\a\x1b[2J\x9b1m",
	"no UTF-8":    "\xff\xfe\xc0\xaf\xed\xa0\x80",
	"long":        strings.Repeat("x", 4096),
	"long, wide":  strings.Repeat("語", 2048),
	"marks":       strings.Repeat("\u0301", 2048),
	"emoji":       "👩‍👩‍👧‍👦🇩🇪",
	"quotes":      `a"b\c'd`,
	"markup":      "<script>&amp;</script>",
	"nul":         "a\x00b",
	"bidi":        "\u202e\u2066abc",
	"only spaces": "   ",
}

func spoiled(s string) *event.Event {
	e := sample(event.ContainerDied)
	e.Pod = event.Pod{UID: s, Namespace: s, Name: s}
	e.Sandbox = &event.Sandbox{ID: s, Labels: map[string]string{s: s}, Annotations: map[string]string{s: s}}
	e.Container = &event.Container{ID: s, Name: s, Image: s}
	e.Status = &event.Status{ExitCode: ptr(int32(1)), Reason: s, Message: s}
	e.Detection.Trigger = s
	return e
}

func TestTextOfNastyNames(t *testing.T) {
	for name, s := range nasty {
		t.Run(name, func(t *testing.T) {
			for _, width := range []int{0, 20, 80, 200} {
				line := lines(t, TextOptions{Width: func() int { return width }}, spoiled(s))[0]
				if !utf8.ValidString(line) {
					t.Errorf("width %d: no valid UTF-8: %q", width, line)
				}
				if i := strings.IndexFunc(line, func(r rune) bool { return r < ' ' || r >= 0x7f && r < 0xa0 || r >= 0x202a && r <= 0x202e }); i >= 0 {
					t.Errorf("width %d: a control character at %d in %q", width, i, line)
				}
				if len(line) > 8192 {
					t.Errorf("width %d: the line has %d bytes", width, len(line))
				}
				if got := columns(line); width >= 80 && got > width {
					t.Errorf("width %d: the line has %d columns: %q", width, got, line)
				}
			}
		})
	}
}

// TestNarrowTerminals shows what goes first as the line becomes narrower.
func TestNarrowTerminals(t *testing.T) {
	e := sample(event.ContainerDied)
	e.Pod.Name = "checkout-8w2g2567q-d6qkn"
	e.Container.Name = "payment-proxy"
	e.Status = &event.Status{StartedAt: noon.Add(-time.Minute), FinishedAt: noon, ExitCode: ptr(int32(1)), Reason: "Error"}
	tests := []struct {
		width int
		want  string
	}{
		{0, "12:00:00.005  ✕ died          shop/checkout-8w2g2567q-d6qkn/payment-proxy  c0c0c0c0c0c0  exit 1  ran 1m0s  cri +1.2ms"},
		{120, "12:00:00.005  ✕ died          shop/checkout-8w2g2567q-d6qkn/payment-proxy  c0c0c0c0c0c0  exit 1  ran 1m0s  cri +1.2ms"},
		{106, "12:00:00.005  ✕ died          shop/checkout-8w2g2567q-d6qkn/payment-proxy  exit 1  ran 1m0s  cri +1.2ms"},
		{101, "12:00:00  ✕ died          shop/checkout-8w2g2567q-d6qkn/payment-proxy  exit 1  ran 1m0s  cri +1.2ms"},
		{90, "12:00:00  ✕ died          shop/checkout-8w2g2567q-d6qkn/payment-proxy  exit 1  ran 1m0s"},
		{80, "12:00:00  ✕ died          shop/checko…7q-d6qkn/payment-proxy  exit 1  ran 1m0s"},
		{60, "12:00:00  ✕ died          shop/…ment-proxy  exit 1  ran 1m0s"},
		{55, "12:00:00  ✕ died          shop/…ment-proxy  exit 1"},
		{48, "12:00:00  ✕ died          shop/…ment-proxy  exi…"},
		{45, "12:00:00  ✕ died          shop/…ment-proxy  …"},
		{30, "12:00:00  ✕ died          shop/…ment-proxy"},
	}
	for _, test := range tests {
		got := lines(t, TextOptions{Width: func() int { return test.width }}, e)[0]
		if got != test.want {
			t.Errorf("width %d\n got %s\nwant %s", test.width, got, test.want)
		}
	}
}

func TestColumnsStayAligned(t *testing.T) {
	var events []*event.Event
	for _, name := range []string{"a", "日本語", strings.Repeat("n", 40), "b", "cafe\u0301"} {
		e := sample(event.ContainerStarted)
		e.Container.Name = name
		events = append(events, e)
	}
	got := lines(t, TextOptions{}, events...)
	at := func(line string) int {
		before, _, _ := strings.Cut(line, "c0c0")
		return columns(before)
	}
	if at(got[0]) != at(got[1]) {
		t.Errorf("the ID is not below the ID:\n%s", strings.Join(got, "\n"))
	}
	// After a longer name the column stays wider.
	if at(got[2]) != at(got[3]) || at(got[3]) != at(got[4]) {
		t.Errorf("the ID is not below the ID:\n%s", strings.Join(got, "\n"))
	}
}

var sgr = regexp.MustCompile("\x1b\\[[0-9]*m")

func TestColour(t *testing.T) {
	for _, typ := range event.Types() {
		plain, coloured := lines(t, TextOptions{}, sample(typ))[0], lines(t, TextOptions{Colour: true}, sample(typ))[0]
		if strings.Contains(plain, "\x1b") {
			t.Errorf("%s: colour where none was asked for: %q", typ, plain)
		}
		if !strings.Contains(coloured, "\x1b[") || !strings.HasSuffix(coloured, "\x1b[0m") {
			t.Errorf("%s: no colour: %q", typ, coloured)
		}
		if sgr.ReplaceAllString(coloured, "") != plain {
			t.Errorf("%s: colour changes the text:\n%s\n%s", typ, coloured, plain)
		}
	}
	tests := []struct {
		env  map[string]string
		want bool
	}{
		{nil, true},
		{map[string]string{"TERM": "xterm-256color"}, true},
		{map[string]string{"TERM": "dumb"}, false},
		{map[string]string{"NO_COLOR": "1"}, false},
		{map[string]string{"NO_COLOR": ""}, true},
	}
	for _, test := range tests {
		if got := Coloured(func(k string) string { return test.env[k] }); got != test.want {
			t.Errorf("with %v: %v, want %v", test.env, got, test.want)
		}
	}
}

func TestBrief(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0:                            "0.0ms",
		45 * time.Microsecond:        "0.0ms",
		900 * time.Microsecond:       "0.9ms",
		4400 * time.Microsecond:      "4.4ms",
		13400 * time.Microsecond:     "13ms",
		735 * time.Millisecond:       "735ms",
		2345 * time.Millisecond:      "2.3s",
		90 * time.Second:             "1m30s",
		3*time.Hour + 61*time.Second: "3h1m1s",
	} {
		if got := brief(d); got != want {
			t.Errorf("%v is told as %q, want %q", d, got, want)
		}
	}
}

// TestNew checks what Auto means for a file; what it means for a terminal needs
// one.
func TestNew(t *testing.T) {
	getenv := func(string) string { return "" }
	for format, want := range map[Format]string{Auto: "{", NDJSON: "{", Text: "12:00", None: ""} {
		f, err := os.CreateTemp(t.TempDir(), "")
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		w := New(format, f, getenv)
		if err := w.Write(sample(event.ContainerDied)); err != nil {
			t.Fatal(err)
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(f.Name())
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(string(data), want) || want == "" && len(data) > 0 {
			t.Errorf("%s writes %q", format, data)
		}
	}
}
