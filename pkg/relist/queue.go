package relist

// queue holds a pod's changes until they are handed on, and the statuses that
// were read ahead for them.
type queue struct {
	changes []Change
	reads   map[string]*ahead
}

// enqueue hands on a pod's changes after those already queued for it. Each pod
// with queued changes has one goroutine, so that pods do not wait for one
// another. It takes out of reads what the changes want. first says that the first
// listing of everything showed them.
func (e *Engine) enqueue(uid string, changes []Change, reads map[string]*ahead, first bool) {
	e.qmu.Lock()
	defer e.qmu.Unlock()
	if first {
		e.untold[uid] = true
	}
	q := e.queues[uid]
	if q == nil {
		q = &queue{}
		e.queues[uid] = q
		e.wg.Go(func() { e.drain(uid, q) })
	}
	q.changes = append(q.changes, changes...)
	if len(reads) == 0 {
		return
	}
	for id := range wantsStatus(changes, reads) {
		a := reads[id]
		if a == nil {
			continue
		}
		delete(reads, id)
		if before := q.reads[id]; before != nil {
			before.cancel()
		}
		if q.reads == nil {
			q.reads = make(map[string]*ahead)
		}
		q.reads[id] = a
	}
}

// drain hands on a pod's changes until none is left. What came together while the
// ones before waited for their details waits for its own together, so that a pod
// whose statuses hang is late by twice the deadline at most, however often it
// changes.
func (e *Engine) drain(uid string, q *queue) {
	for {
		e.qmu.Lock()
		now := *q
		if len(now.changes) == 0 {
			delete(e.queues, uid)
			delete(e.untold, uid)
			e.qmu.Unlock()
			return
		}
		*q = queue{}
		e.qmu.Unlock()

		if changes := e.addDetails(e.ctx, now.changes, now.reads); len(changes) > 0 {
			e.opts.Sink(changes)
		}
	}
}

// telling reports whether some of what the first listing showed is still to be
// handed on.
func (e *Engine) telling() bool {
	e.qmu.Lock()
	defer e.qmu.Unlock()
	return len(e.untold) > 0
}
