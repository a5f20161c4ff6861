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
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const (
	// statusSlots bounds the status reads that the runtime has to work on at once.
	statusSlots = 16
	// slotTime is how long a read counts towards that bound. One that takes
	// longer hangs rather than works, and must not keep others from being read.
	slotTime = 50 * time.Millisecond
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
	id    string
	want  event.State
	first chan outcome // what the first try gave; buffered
	more  chan bool    // whether the result is still wanted after that; buffered
}

type outcome struct {
	status *event.Status
	err    error
}

// addDetails puts into a pod's changes what a listing does not tell. It takes
// no longer than the status deadline.
func (e *Engine) addDetails(ctx context.Context, changes []Change) []Change {
	want := wantsStatus(changes)
	if len(want) == 0 {
		return markGone(changes)
	}
	readings := make([]*reading, 0, len(want))
	for id, st := range want {
		r := &reading{id: id, want: st, first: make(chan outcome, 1), more: make(chan bool, 1)}
		readings = append(readings, r)
		e.spawn(func(ctx context.Context) { e.read(ctx, r) })
	}

	deadline, cancel := context.WithTimeout(ctx, e.opts.StatusDeadline)
	defer cancel()
	got := make(map[string]outcome, len(readings))
	for _, r := range readings {
		o := outcome{err: context.DeadlineExceeded}
		select {
		case o = <-r.first:
		case <-deadline.Done():
		}
		got[r.id] = o
		r.more <- o.err != nil && !errors.Is(o.err, errStatusGone)
	}
	return fillIn(changes, got)
}

// wantsStatus says of which containers among a pod's changes the details are to
// be read, and which state they must show.
func wantsStatus(changes []Change) map[string]event.State {
	want := make(map[string]event.State)
	for i := range changes {
		switch c := &changes[i]; c.Type {
		case event.ContainerStarted, event.ContainerDied:
			want[c.Container.ID] = c.To
		case event.ContainerRemoved:
			delete(want, c.Container.ID)
		}
	}
	return want
}

// fillIn completes changes with what was read. A start that was inferred is
// dropped when the status says that there was none: the runtime failed to start
// the container and called it exited.
func fillIn(changes []Change, got map[string]outcome) []Change {
	out := changes[:0]
	for _, c := range changes {
		if c.Container == nil || c.Type != event.ContainerStarted && c.Type != event.ContainerDied {
			out = append(out, c)
			continue
		}
		o, read := got[c.Container.ID]
		switch {
		case !read || errors.Is(o.err, errStatusGone):
			c.StatusMissing = event.StatusGone
		case errors.Is(o.err, context.DeadlineExceeded):
			c.StatusMissing = event.StatusLate
		case o.err != nil:
			c.StatusMissing = event.StatusFailed
		case c.Inferred && o.status.StartedAt.IsZero():
			continue
		default:
			c.Status = o.status
		}
		out = append(out, c)
	}
	return out
}

func markGone(changes []Change) []Change { return fillIn(changes, nil) }

// read reads one status, and keeps trying while the result is wanted.
func (e *Engine) read(ctx context.Context, r *reading) {
	st, err := e.fetchStatus(ctx, r.id, r.want)
	r.first <- outcome{st, err}
	if !<-r.more {
		return
	}
	for wait, try := statusRetryFirst, 0; err != nil; wait, try = min(2*wait, statusRetryLast), try+1 {
		if errors.Is(err, errStatusGone) || ctx.Err() != nil {
			return
		}
		if try == statusRetries {
			e.opts.Log.Warn("a container's status can't be read; its events stay without details",
				"container", r.id, "tries", try+1, "err", err)
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
		st, err = e.fetchStatus(ctx, r.id, r.want)
	}
	if c, ok := e.store.podSync(r.id); ok {
		c.Status = st
		e.enqueue(c.Pod.UID, []Change{c})
	}
}

// fetchStatus makes one call.
func (e *Engine) fetchStatus(ctx context.Context, id string, want event.State) (*event.Status, error) {
	select {
	case e.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	release := sync.OnceFunc(func() { <-e.slots })
	defer release()
	timer := time.AfterFunc(slotTime, release)
	defer timer.Stop()

	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	resp, err := e.opts.Runtime.ContainerStatus(ctx, id, false)
	if status.Code(err) == codes.NotFound {
		return nil, errStatusGone
	}
	if err != nil {
		// Not %w: a deadline of the runtime's is a failure, not our being late.
		return nil, fmt.Errorf("read status of container %s: %v", id, err)
	}
	return statusFrom(resp.GetStatus(), want)
}

// statusFrom reads the runtime's answer. want is the state the listing showed:
// an answer that is behind it lacks just what is wanted.
func statusFrom(s *runtimeapi.ContainerStatus, want event.State) (*event.Status, error) {
	if s == nil {
		return nil, errNoStatus
	}
	st, _ := containerState(s.State)
	if want == event.StateExited && st != exited {
		return nil, errStatusBehind
	}
	out := &event.Status{
		StartedAt:  unixNano(s.StartedAt),
		FinishedAt: unixNano(s.FinishedAt),
		Reason:     shared(s.Reason),
		Message:    s.Message,
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
	return time.Unix(0, ns)
}
