package relist

import "context"

// enqueue hands on a pod's changes after those already queued for it. Each pod
// with queued changes has one goroutine, so that pods do not wait for one
// another.
func (e *Engine) enqueue(uid string, changes []Change) {
	e.qmu.Lock()
	defer e.qmu.Unlock()
	waiting, busy := e.queues[uid]
	e.queues[uid] = append(waiting, changes)
	if !busy {
		e.spawn(func(ctx context.Context) { e.drain(ctx, uid) })
	}
}

// drain hands on a pod's changes until none is left.
func (e *Engine) drain(ctx context.Context, uid string) {
	for {
		e.qmu.Lock()
		waiting := e.queues[uid]
		if len(waiting) == 0 {
			delete(e.queues, uid)
			e.qmu.Unlock()
			return
		}
		changes := waiting[0]
		e.queues[uid] = waiting[1:]
		e.qmu.Unlock()

		if changes = e.addDetails(ctx, changes); len(changes) > 0 {
			e.opts.Sink(changes)
		}
	}
}

// spawn runs f until the engine is closed; Close waits for it.
func (e *Engine) spawn(f func(context.Context)) {
	e.wg.Go(func() { f(e.ctx) })
}
