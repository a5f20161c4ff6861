package relist

import (
	"context"
	"sync"
	"time"
)

// flights holds back a second relist of a scope while one is under way: a
// runtime that hangs must not be asked the same thing again and again.
type flights struct {
	mu   sync.Mutex
	open map[string]*flight
}

type flight struct {
	since  time.Time
	landed chan struct{}
}

// take waits for the scope (a pod UID, empty for all) to be free and occupies it
// until the returned function is called.
func (f *flights) take(ctx context.Context, scope string) (land func(), err error) {
	for {
		f.mu.Lock()
		before := f.open[scope]
		if before == nil {
			now := &flight{since: time.Now(), landed: make(chan struct{})}
			f.open[scope] = now
			f.mu.Unlock()
			return func() {
				f.mu.Lock()
				delete(f.open, scope)
				f.mu.Unlock()
				close(now.landed)
			}, nil
		}
		f.mu.Unlock()
		select {
		case <-before.landed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// InFlight says for how long the global relist under way has been, and so shows
// a hang while it lasts; 0 when there is none.
func (e *Engine) InFlight() time.Duration {
	e.flights.mu.Lock()
	defer e.flights.mu.Unlock()
	if f := e.flights.open[""]; f != nil {
		return time.Since(f.since)
	}
	return 0
}
