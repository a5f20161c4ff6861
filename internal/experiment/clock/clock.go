// Package clock tells the time by which an experiment measures: nanoseconds of the
// kernel's monotonic clock, which its own time stamps and every process of the host
// share. A step of the wall clock does not touch it.
package clock

import (
	"sync"
	"time"
)

// Now is the monotonic time. It is never 0, which stands for a moment that was not
// observed.
func Now() int64 { return now() }

// Of turns a time with Go's monotonic reading, as time.Now returns it, into the
// monotonic time.
func Of(t time.Time) int64 { return Now() - int64(time.Since(t)) }

// step is how far the wall clock may move against the monotonic one between two
// samples before it counts as a step. Slewing, as NTP does it, is at most 0.5 ms a
// second.
const step = 5 * time.Millisecond

// Wall converts wall clock times, of whichever process of this host, into monotonic
// ones. It takes samples of both clocks, and notices when the wall clock was
// stepped: what was stamped around then can't be converted for certain. Its methods
// are safe for concurrent use.
type Wall struct {
	mu     sync.Mutex
	offset int64 // wall minus monotonic
	steps  int
}

// NewWall takes the first sample.
func NewWall() *Wall {
	w := &Wall{}
	w.offset = w.sample(time.Now, Now)
	return w
}

// Sample compares the clocks anew. It is to be called every now and then, and
// reports whether the wall clock was stepped since the last time.
func (w *Wall) Sample() (stepped bool) { return w.take(w.sample(time.Now, Now)) }

func (w *Wall) take(offset int64) (stepped bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	moved := time.Duration(offset - w.offset).Abs()
	w.offset = offset
	if moved > step {
		w.steps++
	}
	return moved > step
}

// sample reads the clocks a few times and believes the pair that was read in the
// shortest time: in between, this process may have been put aside.
func (*Wall) sample(wall func() time.Time, mono func() int64) (offset int64) {
	best := int64(1<<63 - 1)
	for range 5 {
		before := mono()
		t := wall().UnixNano()
		after := mono()
		if took := after - before; took < best {
			best, offset = took, t-(before+took/2)
		}
	}
	return offset
}

// Steps is how often the wall clock was seen to be stepped.
func (w *Wall) Steps() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.steps
}

// Monotonic converts a wall clock time; the zero time becomes 0.
func (w *Wall) Monotonic(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return t.UnixNano() - w.offset
}
