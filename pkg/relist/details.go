package relist

import (
	"context"
	"errors"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
)

// addDetails puts into a pod's changes what a listing does not tell. It takes
// no longer than the status deadline.
func (e *Engine) addDetails(ctx context.Context, changes []Change, reads map[string]*ahead) []Change {
	want := wantsStatus(changes, reads)
	for id, a := range reads {
		if _, wanted := want[id]; !wanted {
			a.cancel()
		}
	}
	readings := make([]*reading, 0, len(want))
	for id, w := range want {
		readings = append(readings, e.startReading(&reading{id: id, wanted: w, ahead: reads[id]}))
	}

	deadline, cancel := context.WithTimeout(ctx, e.opts.StatusDeadline)
	defer cancel()
	got := make(map[string]outcome, len(readings))
	for _, r := range readings {
		o := r.await(deadline)
		got[r.id] = o
		r.more <- o.err != nil && !errors.Is(o.err, errStatusGone)
	}
	changes = fillIn(changes, got)
	for i := range changes {
		e.recall(&changes[i])
	}
	return changes
}

// recall tells of a container's end, too, what was told at its start.
func (e *Engine) recall(c *Change) {
	if c.Container == nil {
		return
	}
	switch id := c.Container.ID; {
	case c.Type == event.ContainerRemoved:
		e.starts.forget(id)
	case c.Type == event.ContainerDied, c.Type == event.PodSync && c.To == event.StateExited:
		c.Status = e.starts.complete(id, c.Status)
	case c.Type == event.PodSync && e.store.State(id) == event.StateNonExistent:
		// It came after the removal: nothing would forget it again.
	default:
		e.starts.keep(id, c.Status)
	}
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

// wanted is the status that a change wants: what it must show, how the change was
// found, and whether the container has been removed since, so that asking is in vain
// and only what was read ahead can tell.
type wanted struct {
	state   event.State
	foundBy event.FoundBy
	removed bool
}

// wantsStatus says of which containers among a pod's changes the details are to
// be had.
func wantsStatus(changes []Change, reads map[string]*ahead) map[string]wanted {
	want := make(map[string]wanted)
	for i := range changes {
		switch c := &changes[i]; c.Type {
		case event.ContainerStarted, event.ContainerDied:
			want[c.Container.ID] = wanted{state: c.To, foundBy: c.Detection.FoundBy}
		case event.ContainerRemoved:
			if w, ok := want[c.Container.ID]; ok && reads[c.Container.ID] != nil {
				w.removed = true
				want[c.Container.ID] = w
			} else {
				delete(want, c.Container.ID)
			}
		}
	}
	return want
}

// fillIn completes changes with what was read.
func fillIn(changes []Change, got map[string]outcome) []Change {
	for i := range changes {
		c := &changes[i]
		if c.Type != event.ContainerStarted && c.Type != event.ContainerDied {
			continue
		}
		o, read := got[c.Container.ID]
		switch {
		case !read || errors.Is(o.err, errStatusGone):
			c.StatusMissing = event.StatusGone
		case errors.Is(o.err, context.DeadlineExceeded), errors.Is(o.err, context.Canceled):
			c.StatusMissing = event.StatusLate
		case o.err != nil:
			c.StatusMissing = event.StatusFailed
		case c.Type == event.ContainerStarted:
			c.Status = beforeExit(o.status)
		case o.status.ExitCode == nil: // it runs again; how it ended is lost
			c.StatusMissing = event.StatusGone
		default:
			c.Status = o.status
		}
	}
	return changes
}

// beforeExit is what s says of a container that has started, without what it says
// of its end: the status may have been read after it.
func beforeExit(s *event.Status) *event.Status {
	if s == nil || s.ExitCode == nil {
		return s
	}
	return &event.Status{StartedAt: s.StartedAt, Pid: s.Pid, CgroupPath: s.CgroupPath, CgroupID: s.CgroupID}
}
