package view

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/client"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/merge"
)

// TestScreen wants lines to come out whole above a status line of any width.
func TestScreen(t *testing.T) {
	for _, width := range []int{0, 1, 5, 20, 200} {
		term := &terminal{width: width}
		s := &screen{w: term, width: func() int { return width }, status: true}
		write := func(text string) {
			if _, err := s.Write([]byte(text)); err != nil {
				t.Fatal(err)
			}
		}
		draw := func(text string) {
			if err := s.draw(text, true); err != nil {
				t.Fatal(err)
			}
		}
		draw("connecting, and that takes a while, longer than a line is")
		write("one\n")
		draw("status")
		draw("st")
		write("two\nthree\n")
		write("four\n")
		draw("an \x1b[31m evil\nstatus")
		if width == 200 && term.String() != "one\ntwo\nthree\nfour\n"+`an \x1b[31m evil\nstatus` {
			t.Errorf("the screen shows %q", term)
		}
		if err := s.clear(); err != nil {
			t.Fatal(err)
		}
		if term.String() != "one\ntwo\nthree\nfour\n" {
			t.Errorf("width %d: the screen shows %q", width, term)
		}
	}
	// Without a status line nothing but what is written.
	var b strings.Builder
	s := &screen{w: &b}
	if err := errors.Join(s.draw("status", true), s.clear()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Write([]byte("one\n")); err != nil || b.String() != "one\n" {
		t.Errorf("%q, %v", b.String(), err)
	}
}

func TestRate(t *testing.T) {
	var r rate
	now := time.Unix(1_700_000_000, 0)
	for range 50 {
		r.add(now)
	}
	for _, step := range []struct {
		later time.Duration
		want  float64
	}{{0, 5}, {9 * time.Second, 5}, {10 * time.Second, 0}, {-time.Hour, 0}} {
		if got := r.perSecond(now.Add(step.later)); got != step.want {
			t.Errorf("%s later it is %g a second, want %g", step.later, got, step.want)
		}
	}
	now = now.Add(time.Hour)
	r.add(now)
	if got := r.perSecond(now); got != 0.1 {
		t.Errorf("after a pause it is %g a second", got)
	}
}

func TestStatusLine(t *testing.T) {
	now := time.Now()
	s := &status{}
	if got := s.line(nil, now); got != "○ connecting  0 events  0.0/s" {
		t.Errorf("%q", got)
	}
	s.link.set(client.Connection{})
	pods := []event.PodStatus{{
		Sandboxes:  []event.SandboxStatus{{State: event.StateRunning}},
		Containers: []event.ContainerStatus{{State: event.StateRunning}, {Container: event.Container{ID: "x"}, State: event.StateExited}},
	}, {}}
	s.take(client.Update{Kind: client.KindReset}, now)
	s.take(client.Update{Kind: client.KindEvent, Token: merge.Token{Epoch: "e", Sequence: 7}}, now)
	connected, _ := s.link.get()
	if got := s.line(pods, connected.Add(3*time.Minute)); got != "● connected for 3m  1 events  0.0/s  1 pods, 1 containers run  at e-7" {
		t.Errorf("%q", got)
	}
	s.link.set(client.Connection{Err: errors.New("nobody")})
	since, _ := s.link.get()
	s.link.set(client.Connection{Err: errors.New("nobody answers")})
	if again, err := s.link.get(); again != since || err.Error() != "nobody answers" {
		t.Errorf("since %s, %v", again.Sub(since), err)
	}
	if got := s.line(nil, since.Add(5*time.Second)); !strings.HasPrefix(got, "○ disconnected for 5s: nobody answers") {
		t.Errorf("%q", got)
	}
}
