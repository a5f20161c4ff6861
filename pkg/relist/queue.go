package relist

// enqueue hands on a pod's changes after those already queued for it. Each pod
// with queued changes has one goroutine, so that pods do not wait for one
// another.
func (e *Engine) enqueue(uid string, changes []Change) {
	e.qmu.Lock()
	defer e.qmu.Unlock()
	waiting, busy := e.queues[uid]
	e.queues[uid] = append(waiting, changes...)
	if !busy {
		e.wg.Go(func() { e.drain(uid) })
	}
}

// drain hands on a pod's changes until none is left. What came together while the
// ones before waited for their details waits for its own together, so that a pod
// whose statuses hang is late by twice the deadline at most, however often it
// changes.
func (e *Engine) drain(uid string) {
	for {
		e.qmu.Lock()
		changes := e.queues[uid]
		if len(changes) == 0 {
			delete(e.queues, uid)
			e.qmu.Unlock()
			return
		}
		e.queues[uid] = nil
		e.qmu.Unlock()

		if changes = e.addDetails(e.ctx, changes); len(changes) > 0 {
			e.opts.Sink(changes)
		}
	}
}
