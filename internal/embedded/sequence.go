package embedded

import (
	"context"
	"time"

	"google.golang.org/grpc/status"
)

// sequence holds what is still to happen to one container or sandbox, in the
// order in which it was asked for: a short-lived container must show RUNNING
// before EXITED, however the lags fall. All of it is guarded by Runtime.op.
type sequence struct {
	steps   []step
	timer   *time.Timer
	running bool
	// idle is closed when the last step was done; nil unless somebody waits.
	idle chan struct{}
}

type step struct {
	due time.Time
	do  func()
}

// after does something d from now, but not before the steps already asked for.
// Without such steps and with no d it is done at once. Runtime.op is held, by
// the caller as well as while do runs.
func (r *Runtime) after(q *sequence, d time.Duration, do func()) {
	if len(q.steps) == 0 && !q.running && d <= 0 {
		do()
		return
	}
	due := time.Now().Add(max(d, 0))
	if n := len(q.steps); n > 0 && due.Before(q.steps[n-1].due) {
		due = q.steps[n-1].due
	}
	q.steps = append(q.steps, step{due, do})
	if len(q.steps) == 1 && !q.running {
		r.arm(q)
	}
}

func (r *Runtime) arm(q *sequence) {
	q.timer = time.AfterFunc(time.Until(q.steps[0].due), func() {
		r.op.Lock()
		defer r.op.Unlock()
		if !r.isClosed() {
			r.advance(q)
		}
	})
}

func (r *Runtime) advance(q *sequence) {
	q.running = true
	for len(q.steps) > 0 && !q.steps[0].due.After(time.Now()) {
		next := q.steps[0]
		q.steps = q.steps[1:]
		next.do()
	}
	q.running = false
	if len(q.steps) > 0 {
		r.arm(q)
		return
	}
	q.steps = nil
	if q.idle != nil {
		close(q.idle)
		q.idle = nil
	}
}

// settle waits until nothing is left to happen. Runtime.op is not held.
func (r *Runtime) settle(ctx context.Context, q *sequence) error {
	r.op.Lock()
	if len(q.steps) == 0 {
		r.op.Unlock()
		return nil
	}
	if q.idle == nil {
		q.idle = make(chan struct{})
	}
	idle := q.idle
	r.op.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	case <-r.done:
		return errClosed()
	}
}

// drop forgets all steps and lets go whoever waits.
func (q *sequence) drop() {
	if q.timer != nil {
		q.timer.Stop()
	}
	q.steps = nil
	if q.idle != nil {
		close(q.idle)
		q.idle = nil
	}
}
