package relist

import (
	"context"
	"errors"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
)

// addDetails puts into a pod's changes what a listing does not tell. It takes
// no longer than the status deadline.
func (e *Engine) addDetails(ctx context.Context, changes []Change, reads map[string]*ahead) []Change {
	want := wantsStatus(changes)
	readings := make([]*reading, 0, len(want))
	for id, st := range want {
		readings = append(readings, e.startReading(id, st, reads[id]))
	}

	deadline, cancel := context.WithTimeout(ctx, e.opts.StatusDeadline)
	defer cancel()
	got := make(map[string]outcome, len(readings))
	for _, r := range readings {
		o := r.await(deadline)
		got[r.id] = o
		r.more <- o.err != nil && !errors.Is(o.err, errStatusGone)
	}
	return fillIn(changes, got)
}

// await returns what the first try gave, or the context's error.
func (r *reading) await(ctx context.Context) outcome {
	select {
	case o := <-r.first:
		return o
	case <-ctx.Done():
	}
	select {
	case o := <-r.first: // it was there when the deadline had passed for another
		return o
	default:
		return outcome{err: context.DeadlineExceeded}
	}
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
	var neverRan map[string]event.State
	for _, c := range changes {
		if c.Container == nil || c.Type != event.ContainerStarted && c.Type != event.ContainerDied {
			out = append(out, c)
			continue
		}
		id := c.Container.ID
		o, read := got[id]
		switch {
		case !read || errors.Is(o.err, errStatusGone):
			c.StatusMissing = event.StatusGone
		case errors.Is(o.err, context.DeadlineExceeded):
			c.StatusMissing = event.StatusLate
		case o.err != nil:
			c.StatusMissing = event.StatusFailed
		case c.Inferred && o.status.StartedAt.IsZero():
			if neverRan == nil {
				neverRan = make(map[string]event.State)
			}
			neverRan[id] = c.From
			continue
		case c.Type == event.ContainerStarted:
			c.Status = beforeExit(o.status)
		case o.status.ExitCode == nil: // it runs again; how it ended is lost
			c.StatusMissing = event.StatusGone
		default:
			c.Status = o.status
		}
		if from, ok := neverRan[id]; ok {
			c.From = from
			delete(neverRan, id)
		}
		out = append(out, c)
	}
	return out
}

// beforeExit is what s says of a container that has started, without what it says
// of its end: the status may have been read after it.
func beforeExit(s *event.Status) *event.Status {
	if s == nil || s.ExitCode == nil {
		return s
	}
	return &event.Status{StartedAt: s.StartedAt, Pid: s.Pid}
}
