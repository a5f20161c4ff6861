package trigger

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"
)

// How long to wait before a source that ended is run again.
const (
	retryFirst       = 200 * time.Millisecond
	retryLast        = 30 * time.Second
	retryUnsupported = 5 * time.Minute
	// A source that worked this long starts over with the first wait, and is news
	// again when it goes down.
	retryForget = time.Minute
	// maxReasons is how many reasons of one source are told before it has worked for
	// that long: some contain a number that is always another.
	maxReasons = 4
)

// SourceStatus tells whether a source works.
type SourceStatus struct {
	Name SourceName
	Up   bool
	// Err is why it is down; nil while it has not come up for the first time.
	Err error
}

// supervisor runs one source again and again.
type supervisor struct {
	source Source
	box    *mailbox
	report func(SourceStatus)
	log    *slog.Logger

	// reasons are those told since the source last worked for long, silent that its
	// last end was not told, having been before.
	reasons map[string]bool
	silent  bool
}

// run returns when ctx ends.
func (v *supervisor) run(ctx context.Context) {
	name := v.source.Name()
	wait := retryFirst
	for {
		t := &turn{v: v}
		err := v.runOnce(ctx, t)
		worked := t.end()
		if ctx.Err() != nil {
			return
		}
		v.report(SourceStatus{Name: name, Err: err})
		v.box.state(name, false)

		if worked > retryForget {
			wait, v.reasons = retryFirst, nil
		}
		pause := wait
		if errors.Is(err, ErrUnsupported) {
			pause = retryUnsupported
		} else {
			wait = min(2*wait, retryLast)
		}
		v.tell(err, pause)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
	}
}

// runOnce runs the source until it ends, and says why it did. A panic in a source
// ends the source and not the program: signals are hints, and a node that can't
// make sense of one must not lose sight of its pods over it. It would likely come
// again at once, so that it counts as lasting.
func (v *supervisor) runOnce(ctx context.Context, t *turn) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: the source panicked, which is a bug: %v", ErrUnsupported, p)
			v.log.Error("trigger source panicked", "source", v.source.Name(), "panic", p, "stack", string(debug.Stack()))
		}
	}()
	if err := v.source.Run(ctx, t); err != nil {
		return err
	}
	return errors.New("it ended without saying why")
}

// tell logs a reason once, however often it alternates with others.
func (v *supervisor) tell(err error, pause time.Duration) {
	level := slog.LevelWarn
	if msg := err.Error(); v.reasons[msg] || len(v.reasons) >= maxReasons {
		level = slog.LevelDebug
	} else {
		if v.reasons == nil {
			v.reasons = make(map[string]bool)
		}
		v.reasons[msg] = true
	}
	v.silent = level == slog.LevelDebug
	v.log.Log(context.Background(), level, "trigger source is down; the others go on, and everything is relisted more often",
		"source", v.source.Name(), "err", err, "retry_in", pause)
}

// turn is one run of a source, and the sink it is given: what it says after its
// end does not count.
type turn struct {
	v *supervisor

	mu    sync.Mutex
	up    time.Time
	ended bool
}

// Signal implements [Sink].
func (t *turn) Signal(sig Signal) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.ended {
		t.v.box.signal(sig)
	}
}

// Up implements [Sink].
func (t *turn) Up() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended || !t.up.IsZero() {
		return
	}
	t.up = time.Now()
	name := t.v.source.Name()
	t.v.report(SourceStatus{Name: name, Up: true})
	t.v.box.state(name, true)
	level := slog.LevelInfo
	if t.v.silent {
		level = slog.LevelDebug
	}
	t.v.log.Log(context.Background(), level, "trigger source works", "source", name)
}

// end says for how long the source worked.
func (t *turn) end() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = true
	if t.up.IsZero() {
		return 0
	}
	return time.Since(t.up)
}
