package runner

import (
	"context"
	"sync"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/internal/experiment/arm"
	"github.com/hybrid-pleg/hybrid-pleg/internal/experiment/result"
)

// costs measures what the arms and the runtime spend in a window.
type costs struct {
	e     *experiment
	p     pass
	done  sync.WaitGroup
	stop  context.CancelFunc
	spent map[int]*result.Cost
}

// measureCosts measures from begin on for length. wait ends it and writes down what was
// measured.
func (e *experiment) measureCosts(ctx context.Context, p pass, begin time.Time, length time.Duration) *costs {
	c := &costs{e: e, p: p, spent: map[int]*result.Cost{}}
	ctx, c.stop = context.WithCancel(ctx)
	arms := map[int]*arm.Arm{}
	for n, a := range e.arms {
		if e.runs(n) {
			arms[n] = a
		}
	}
	c.done.Go(func() { c.measure(ctx, arms, begin, length) })
	return c
}

// wait waits for the end of the window.
func (c *costs) wait() {
	c.done.Wait()
	c.stop()
	for n, cost := range c.spent {
		c.e.run.Arms[n].Costs = append(c.e.run.Arms[n].Costs, *cost)
	}
}

func (c *costs) measure(ctx context.Context, arms map[int]*arm.Arm, begin time.Time, length time.Duration) {
	if !sleep(ctx, time.Until(begin)) {
		return
	}
	before := map[int]arm.Usage{}
	for n, a := range arms {
		if u, err := a.Begin(ctx); err == nil {
			before[n] = u
		}
	}
	from := time.Now()
	runtimeBefore, runtimeKnown := c.runtimeCPU()
	sleep(ctx, length-time.Since(begin))
	// Also when interrupted: what was measured until then is worth having.
	ctx = context.WithoutCancel(ctx)
	window := time.Since(from)
	runtimeAfter, still := c.runtimeCPU()
	runtime, known := (runtimeAfter - runtimeBefore).Seconds(), runtimeKnown && still && runtimeAfter >= runtimeBefore
	if c.p.alone {
		if known {
			*c.p.base = runtime / window.Seconds()
		}
		return
	}
	for n, u := range before {
		now, err := arms[n].End(ctx)
		if err != nil {
			continue // it has died, which is told elsewhere
		}
		cost := &result.Cost{
			Phase: c.p.w.Name, Repeat: c.p.repeat, Window: window.Seconds(),
			CPU: (now.CPU - u.CPU).Seconds(), PeakRSS: now.PeakRSS, RPCs: difference(now.Calls, u.Calls),
		}
		if known {
			cost.RuntimeCPU = runtime
			if c.p.base != nil {
				cost.Attributable = true
				cost.RuntimeBase = *c.p.base * window.Seconds()
				cost.RuntimeCPU = max(0, runtime-cost.RuntimeBase)
			}
		}
		c.spent[n] = cost
	}
}

func (c *costs) runtimeCPU() (time.Duration, bool) {
	if c.e.site.pid == 0 {
		return 0, false
	}
	d, err := arm.CPUTime(c.e.site.pid)
	return d, err == nil
}

// difference is what came on top; nil where it is not known.
func difference(after, before map[string]uint64) map[string]uint64 {
	if after == nil {
		return nil
	}
	out := map[string]uint64{}
	for method, n := range after {
		out[method] = n - min(n, before[method])
	}
	return out
}

// sleep reports whether it slept for d.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
