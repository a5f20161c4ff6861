package embedded

import (
	"context"
	"sync"
)

// CallStats counts the calls of one method of the CRI. A stream is one call for
// as long as it is open.
type CallStats struct {
	// Total counts the calls that were begun, Failed those that ended in error.
	Total, Failed int
	// InFlight is how many are under way, MaxInFlight the most there ever were at
	// a time.
	InFlight, MaxInFlight int
}

type calls struct {
	mu      sync.Mutex
	stats   map[string]*CallStats
	changed chan struct{}
}

func (c *calls) init() {
	c.stats = map[string]*CallStats{}
	c.changed = make(chan struct{})
}

// begin counts a call; the function it returns is to be called with the outcome.
func (c *calls) begin(method string) (end func(error)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.stats[method]
	if s == nil {
		s = &CallStats{}
		c.stats[method] = s
	}
	s.Total++
	s.InFlight++
	s.MaxInFlight = max(s.MaxInFlight, s.InFlight)
	c.tell()
	return func(err error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		s.InFlight--
		if err != nil {
			s.Failed++
		}
		c.tell()
	}
}

func (c *calls) tell() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// Calls counts the calls of a method, named as in the CRI: "ListContainers".
func (r *Runtime) Calls(method string) CallStats {
	stats, _ := r.callsNow(method)
	return stats
}

func (r *Runtime) callsNow(method string) (CallStats, <-chan struct{}) {
	mustBeMethod(method)
	r.calls.mu.Lock()
	defer r.calls.mu.Unlock()
	if s := r.calls.stats[method]; s != nil {
		return *s, r.calls.changed
	}
	return CallStats{}, r.calls.changed
}

// WaitCalls waits until ok is content with the counts of a method, and returns
// ctx's error if that does not come to pass.
func (r *Runtime) WaitCalls(ctx context.Context, method string, ok func(CallStats) bool) error {
	for {
		stats, changed := r.callsNow(method)
		if ok(stats) {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// call is the way of every unary method: counted, exposed to the faults, done.
// The mangles are what the faults want done to the answer.
func call[T any](ctx context.Context, r *Runtime, method string, ids []string, do func([]mangle) (T, error)) (answer T, err error) {
	end := r.calls.begin(method)
	defer func() { end(err) }()
	d, err := r.faults.enter(ctx, method, ids)
	if err != nil {
		return answer, err
	}
	if r.isClosed() {
		return answer, errClosed()
	}
	return do(d.mangles)
}
