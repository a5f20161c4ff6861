package view

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/internal/output"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/client"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/merge"
)

// link is how the stream stands with the daemon. The stream's goroutine writes it.
type link struct {
	mu    sync.Mutex
	err   error
	since time.Time
}

func (l *link) set(n client.Connection) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if (l.err == nil) != (n.Err == nil) || l.since.IsZero() {
		l.since = time.Now()
	}
	l.err = n.Err
}

// get returns since when it stands so, zero before the first attempt, and why there is
// no connection.
func (l *link) get() (since time.Time, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.since, l.err
}

// status is what the line at the bottom tells.
type status struct {
	link   link
	events int
	rate   rate
	token  merge.Token
	// whole: all pods are known, since the stream began with them.
	whole bool
}

func (s *status) take(u client.Update, now time.Time) {
	if u.Kind == client.KindEvent {
		s.events++
		s.rate.add(now)
	}
	if !u.Token.IsZero() {
		s.token = u.Token
	}
	s.whole = s.whole || u.Kind == client.KindReset
}

// line writes the status: the most important first, since its end may be cut off.
func (s *status) line(pods []event.PodStatus, now time.Time) string {
	var parts []string
	switch since, err := s.link.get(); {
	case since.IsZero():
		parts = append(parts, "○ connecting")
	case err != nil:
		parts = append(parts, fmt.Sprintf("○ disconnected for %s: %v", output.Age(now.Sub(since)), err))
	default:
		parts = append(parts, fmt.Sprintf("● connected for %s", output.Age(now.Sub(since))))
	}
	parts = append(parts, fmt.Sprintf("%d events", s.events), fmt.Sprintf("%.1f/s", s.rate.perSecond(now)))
	if s.whole {
		running, containers := output.CountPods(pods)
		parts = append(parts, fmt.Sprintf("%d pods, %d containers run", running, containers))
	}
	if !s.token.IsZero() {
		parts = append(parts, "at "+s.token.String())
	}
	return strings.Join(parts, "  ")
}
