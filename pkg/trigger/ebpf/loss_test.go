package ebpf

import (
	"testing"
	"time"
)

func TestLossCheck(t *testing.T) {
	var c lossCheck
	now := time.Now()
	for i, test := range []struct {
		after   time.Duration
		pending bool
		want    bool
	}{
		{0, true, true}, // never read
		{time.Millisecond, true, false},
		{time.Millisecond, false, true}, // the end of a burst
		{time.Millisecond, false, true},
		{lossEvery - time.Millisecond, true, false},
		{time.Millisecond, true, true}, // a burst without an end
		{time.Millisecond, true, false},
	} {
		now = now.Add(test.after)
		if got := c.due(now, test.pending); got != test.want {
			t.Errorf("%d: due is %v", i, got)
		}
	}
	for i, test := range []struct {
		count uint64
		want  bool
	}{{0, false}, {3, true}, {3, false}, {4, true}} {
		if got := c.grew(test.count); got != test.want {
			t.Errorf("%d: grew is %v", i, got)
		}
	}
}
