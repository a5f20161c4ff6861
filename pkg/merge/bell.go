package merge

import "sync/atomic"

// bell wakes all waiting watchers at a cost to the ringer that does not grow with
// their number: ring wakes one, and that one wakes the others by pass.
type bell struct {
	kick  chan struct{}                 // holds one ring that no watcher took yet
	round atomic.Pointer[chan struct{}] // closed by pass, then replaced
}

func newBell() *bell {
	b := &bell{kick: make(chan struct{}, 1)}
	first := make(chan struct{})
	b.round.Store(&first)
	return b
}

// ring wakes whoever waits. It never blocks.
func (b *bell) ring() {
	select {
	case b.kick <- struct{}{}:
	default: // a ring is pending: whoever takes it looks after this one as well
	}
}

// listen returns the channel to wait on together with kick. No ring is missed by
// who first listens, then looks whether there is anything to wait for, and calls
// pass after a receive from kick.
func (b *bell) listen() <-chan struct{} { return *b.round.Load() }

// pass wakes all that listened before.
func (b *bell) pass() {
	next := make(chan struct{})
	close(*b.round.Swap(&next))
}
