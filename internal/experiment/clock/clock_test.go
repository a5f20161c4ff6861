package clock

import (
	"testing"
	"time"
)

func TestWall(t *testing.T) {
	w := NewWall()
	at := time.Now()
	// By way of the wall clock and by way of Go's monotonic reading, the same moment
	// has the same time, within what reading clocks takes on a busy machine.
	if d := time.Duration(w.Monotonic(at) - Of(at)).Abs(); d > time.Second {
		t.Errorf("the two conversions differ by %s", d)
	}
	if got := w.Monotonic(time.Time{}); got != 0 {
		t.Errorf("the zero time becomes %d", got)
	}
	if w.take(w.offset + int64(4*time.Millisecond)); w.Steps() != 0 {
		t.Error("slewing passes for a step")
	}
	before := w.Monotonic(at)
	if !w.take(w.offset-int64(time.Hour)) || w.Steps() != 1 {
		t.Error("a step of an hour was not noticed")
	}
	if got := w.Monotonic(at) - before; got != int64(time.Hour) {
		t.Errorf("after the clock was put back an hour, the conversion differs by %s", time.Duration(got))
	}
}

func TestSample(t *testing.T) {
	// The second pair is read in the shortest time.
	mono := []int64{0, 100, 200, 202, 300, 400, 500, 600, 700, 800}
	wall := []int64{1050, 1201, 1399, 1555, 1777}
	var m, n int
	offset := (&Wall{}).sample(
		func() time.Time { n++; return time.Unix(0, wall[n-1]) },
		func() int64 { m++; return mono[m-1] })
	if offset != 1000 {
		t.Errorf("the offset is %d, want 1000", offset)
	}
}
