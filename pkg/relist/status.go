package relist

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	// statusSlots bounds the status reads that the runtime has to work on at once.
	statusSlots = 16
	// slotTime is how long a read counts towards that bound. One that takes
	// longer hangs rather than works, and must not keep others from being read.
	slotTime = 50 * time.Millisecond
	// statusCalls bounds the reads under way, hanging ones included.
	statusCalls = 256
	// statusTimeout ends a read that hangs; it is far longer than the deadline
	// after which the event goes out without it.
	statusTimeout = 2 * time.Minute
	// A failed read is repeated after waits that double from the first to the
	// last of these, and then given up.
	statusRetryFirst = time.Second
	statusRetryLast  = time.Minute
	statusRetries    = 10
)

// Why a status could not be had.
var (
	errStatusGone   = errors.New("the container is gone")
	errStatusBehind = errors.New("the status is behind the listing")
	errNoStatus     = errors.New("the runtime answered without a status")
)

// reading is the status of one container being read. The read goes on after the
// event had to go without it, and its result then follows as a PodSync.
type reading struct {
	id string
	wanted
	ahead *ahead       // the status, asked for already; nil if it was not
	first chan outcome // what the first try gave; buffered
	more  chan bool    // whether the result is still wanted after that; buffered
}

type outcome struct {
	status *event.Status
	err    error
}

// readers bounds the status reads.
type readers struct {
	slots chan struct{}
	calls chan struct{}

	mu      sync.Mutex
	open    map[string]*cancelFunc
	givenUp bool // a status that can't be read was logged
}

type cancelFunc struct{ cancel context.CancelFunc }

func newReaders() readers {
	return readers{
		slots: make(chan struct{}, statusSlots),
		calls: make(chan struct{}, statusCalls),
		open:  make(map[string]*cancelFunc),
	}
}

// startReading reads a container's status. An earlier reading of the same
// container that is still going on ends: a container that flaps while its status
// hangs would pile them up, and the later one's answer holds all that the earlier
// one's would have.
func (e *Engine) startReading(r *reading) *reading {
	r.first, r.more = make(chan outcome, 1), make(chan bool, 1)
	id := r.id
	ctx, cancel := context.WithCancel(e.ctx)
	mine := &cancelFunc{cancel}

	e.readers.mu.Lock()
	if before := e.readers.open[id]; before != nil {
		before.cancel()
	}
	e.readers.open[id] = mine
	e.readers.mu.Unlock()

	e.wg.Go(func() {
		defer func() {
			cancel()
			e.readers.mu.Lock()
			if e.readers.open[id] == mine {
				delete(e.readers.open, id)
			}
			e.readers.mu.Unlock()
		}()
		e.read(ctx, r)
	})
	return r
}

// read reads one status, and keeps trying while the result is wanted.
func (e *Engine) read(ctx context.Context, r *reading) {
	st, err := e.firstStatus(ctx, r)
	r.first <- outcome{st, err}
	if !<-r.more {
		return
	}
	for wait, try := statusRetryFirst, 0; err != nil; wait, try = min(2*wait, statusRetryLast), try+1 {
		if errors.Is(err, errStatusGone) || ctx.Err() != nil {
			return
		}
		if try == statusRetries {
			e.giveUp(r.id, err)
			return
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
		if e.store.State(r.id) == event.StateNonExistent {
			return
		}
		st, err = e.fetchStatus(ctx, r.id, r.state)
	}
	if c, ok := e.store.podSync(r.id, st, r.foundBy); ok {
		e.enqueue(c.Pod.UID, []Change{c}, nil, false)
	}
}

// firstStatus takes the status that was asked for ahead, if that will do, or makes
// a call.
func (e *Engine) firstStatus(ctx context.Context, r *reading) (*event.Status, error) {
	if r.ahead != nil {
		a, err := r.ahead.await(ctx)
		if errors.Is(err, errStatusGone) {
			return nil, err
		}
		if err == nil {
			if st, err := statusFrom(a, r.state); err == nil {
				return st, nil
			}
		}
	}
	if r.removed {
		return nil, errStatusGone
	}
	return e.fetchStatus(ctx, r.id, r.state)
}

// giveUp logs once that a status can't be read: when one can't, thousands may not.
func (e *Engine) giveUp(id string, err error) {
	e.readers.mu.Lock()
	first := !e.readers.givenUp
	e.readers.givenUp = true
	e.readers.mu.Unlock()
	if first {
		e.opts.Log.Warn("a container's status can't be read, so its events stay without details; the next ones are logged at debug level",
			"container", id, "tries", statusRetries+1, "err", err)
		return
	}
	e.opts.Log.Debug("a container's status can't be read", "container", id, "err", err)
}

// fetchStatus makes one call.
func (e *Engine) fetchStatus(ctx context.Context, id string, want event.State) (*event.Status, error) {
	if err := occupy(ctx, e.readers.calls); err != nil {
		return nil, err
	}
	defer func() { <-e.readers.calls }()
	if err := occupy(ctx, e.readers.slots); err != nil {
		return nil, err
	}
	defer e.readers.leaveSlot()()

	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	a, err := e.askStatus(ctx, id, want == event.StateRunning)
	if err != nil {
		return nil, err
	}
	return statusFrom(a, want)
}

// askStatus asks for a container's status. Only a start is worth a verbose answer,
// which on containerd takes some two tenths of a millisecond longer: at the end,
// what it would tell is gone.
func (e *Engine) askStatus(ctx context.Context, id string, start bool) (answer, error) {
	verbose := start && e.opts.Locate != nil
	resp, err := e.opts.Runtime.ContainerStatus(ctx, id, verbose)
	if status.Code(err) == codes.NotFound {
		return answer{}, errStatusGone
	}
	if err != nil {
		//nolint:errorlint // Not %w: a deadline of the runtime's is a failure, not our being late.
		return answer{}, fmt.Errorf("read status of container %s: %v", id, err)
	}
	a := answer{status: resp.GetStatus()}
	if st, _ := containerState(a.status.GetState()); verbose && st == running {
		e.locate(&a, id, resp.GetInfo())
	}
	return a, nil
}

// leaveSlot frees the caller's slot after slotTime, or when the returned function is
// called.
func (r *readers) leaveSlot() (now func()) {
	release := sync.OnceFunc(func() { <-r.slots })
	timer := time.AfterFunc(slotTime, release)
	return func() { timer.Stop(); release() }
}

func occupy(ctx context.Context, slots chan<- struct{}) error {
	select {
	case slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// statusFrom reads the runtime's answer. want is the state the listing showed:
// an answer that is behind it lacks just what is wanted.
func statusFrom(a answer, want event.State) (*event.Status, error) {
	s := a.status
	if s == nil {
		return nil, errNoStatus
	}
	st, _ := containerState(s.State)
	if want == event.StateExited && st != exited || want == event.StateRunning && st == created {
		return nil, errStatusBehind
	}
	out := &event.Status{
		StartedAt:  unixNano(s.StartedAt),
		FinishedAt: unixNano(s.FinishedAt),
		Reason:     validText(s.Reason),
		Message:    validText(s.Message),
		Pid:        a.pid,
		CgroupPath: a.place.CgroupPath,
		CgroupID:   a.place.CgroupID,
	}
	if st == exited {
		code := s.ExitCode
		out.ExitCode = &code
	}
	return out, nil
}

// unixNano reads a CRI time stamp. Runtimes leave an unset one 0, or give what
// Go makes of the zero time, which is negative.
func unixNano(ns int64) time.Time {
	if ns <= 0 {
		return time.Time{}
	}
	return time.Unix(0, ns).UTC()
}
