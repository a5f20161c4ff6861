package view

import (
	"bufio"
	"context"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = time.Minute

// options are settings for a test; what is written goes to the returned pipe.
func options(t *testing.T, path, format string) (Options, *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	// A reader that waits for what never comes is told so.
	if err := r.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	errs, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.Close()
		w.Close()
		errs.Close()
	})
	return Options{
		Address: "unix://" + path, Output: format, ConnectTimeout: patience,
		Stdout: w, Stderr: errs, Getenv: func(string) string { return "" },
	}, r
}

// begin runs a command; end ends it and returns its error.
func begin(t *testing.T, run func(context.Context) error) (end func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	end = sync.OnceValue(func() error {
		cancel()
		select {
		case err := <-ended:
			return err
		case <-time.After(patience):
			t.Error("it does not end")
			return nil
		}
	})
	t.Cleanup(func() { _ = end() })
	return end
}

// lines reads a command's output line by line.
type lines struct {
	t  *testing.T
	ch chan string
}

func read(t *testing.T, r io.Reader) *lines {
	l := &lines{t, make(chan string)}
	go func() {
		defer close(l.ch)
		for s := bufio.NewScanner(r); s.Scan(); {
			select {
			case l.ch <- s.Text():
			case <-t.Context().Done():
				return
			}
		}
	}()
	return l
}

// expect wants the next lines to match.
func (l *lines) expect(want ...string) {
	l.t.Helper()
	for _, w := range want {
		select {
		case got, ok := <-l.ch:
			if !ok || !regexp.MustCompile("^"+w+"$").MatchString(got) {
				l.t.Fatalf("%q, want %q", got, w)
			}
		case <-time.After(patience):
			l.t.Fatalf("nothing comes, want %q", w)
		}
	}
}

// errFile reads what a command wrote to standard error.
func errFile(t *testing.T, o Options) string {
	t.Helper()
	data, err := os.ReadFile(o.Stderr.Name())
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	deadline := time.After(patience)
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("never: %s", what)
		}
	}
}

// terminal is what somebody sees who looks at what was written: it knows no more than
// what this package tells one.
type terminal struct {
	rows   []string
	col    int
	noWrap bool
	width  int
}

var sequence = regexp.MustCompile(`^\x1b\[(\??[0-9;]*)([A-Za-z])`)

func (s *terminal) Write(p []byte) (int, error) {
	n := len(p)
	if len(s.rows) == 0 {
		s.rows = []string{""}
	}
	for len(p) > 0 {
		last := &s.rows[len(s.rows)-1]
		if m := sequence.FindSubmatch(p); m != nil {
			switch string(m[1]) + string(m[2]) {
			case "J":
				*last = string([]rune(*last)[:min(s.col, len([]rune(*last)))])
			case "?7l":
				s.noWrap = true
			case "?7h":
				s.noWrap = false
			default:
				if string(m[2]) != "m" {
					panic("the terminal does not know " + string(m[0]))
				}
			}
			p = p[len(m[0]):]
			continue
		}
		r, size := utf8.DecodeRune(p)
		p = p[size:]
		switch r {
		case '\r':
			s.col = 0
		case '\n':
			s.rows = append(s.rows, "")
			s.col = 0
		default:
			runes := []rune(*last)
			if s.col < len(runes) {
				runes[s.col] = r
			} else {
				runes = append(runes, r)
			}
			*last = string(runes)
			s.col++
			if s.noWrap && s.width > 0 && s.col > s.width {
				panic("more than the width: " + *last)
			}
		}
	}
	return n, nil
}

func (s *terminal) String() string { return strings.Join(s.rows, "\n") }
