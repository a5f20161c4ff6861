package truth

import (
	"context"
	"sync"
	"time"
)

// Moment is something that befalls a container.
type Moment int

// The moments.
const (
	// Began and Ended are the kernel's: its workload execed, and ended.
	Began Moment = iota
	Ended
	// The others are when the runtime showed it, running, exited, and no more.
	ShownCreated
	ShownRunning
	ShownExited
	ShownRemoved
	moments
)

// Times are when the moments of a container were; 0: not observed.
type Times [moments]int64

// Ledger holds what is known of each container. It is safe for concurrent use.
type Ledger struct {
	mu    sync.Mutex
	times map[string]*entry
}

type entry struct {
	times  Times
	exited chan struct{} // closed with ShownExited or ShownRemoved
	closed bool
}

// NewLedger returns an empty ledger.
func NewLedger() *Ledger { return &Ledger{times: map[string]*entry{}} }

// Note writes down a moment. The first time counts: a source may tell twice.
func (l *Ledger) Note(id string, what Moment, at int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.entry(id)
	if e.times[what] == 0 {
		e.times[what] = at
	}
	if (what == ShownExited || what == ShownRemoved) && !e.closed {
		e.closed = true
		close(e.exited)
	}
}

// NoteEmpty writes down that a container's cgroup emptied, which is the end of the
// workload only if its begin was seen and its end was not.
func (l *Ledger) NoteEmpty(id string, at int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.times[id]; e != nil && e.times[Began] != 0 && e.times[Ended] == 0 {
		e.times[Ended] = at
	}
}

func (l *Ledger) entry(id string) *entry {
	e := l.times[id]
	if e == nil {
		e = &entry{exited: make(chan struct{})}
		l.times[id] = e
	}
	return e
}

// Of is what is known of a container.
func (l *Ledger) Of(id string) Times {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.times[id]; e != nil {
		return e.times
	}
	return Times{}
}

// Clear forgets everything.
func (l *Ledger) Clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.times = map[string]*entry{}
}

// Ends tells when the runtime shows a container's end: by the ledger, and by asking
// the runtime where the ledger is silent. It implements workload.Ends.
type Ends struct {
	Ledger *Ledger
	// Every is how often the runtime is asked. Asking costs the runtime something, so
	// it is rare where events come.
	Every time.Duration
	// Exited asks the runtime.
	Exited func(ctx context.Context, id string) (bool, error)
}

// WaitExited returns when the runtime shows the end of a container, or with ctx's
// error, or that of asking.
func (e *Ends) WaitExited(ctx context.Context, id string) error {
	e.Ledger.mu.Lock()
	exited := e.Ledger.entry(id).exited
	e.Ledger.mu.Unlock()
	tick := time.NewTicker(e.Every)
	defer tick.Stop()
	for {
		select {
		case <-exited:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
			if ended, err := e.Exited(ctx, id); ended || err != nil {
				return err
			}
		}
	}
}
