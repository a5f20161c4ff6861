package relist

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// ErrNotListed is why an engine is not healthy that has not had a good listing
// yet.
var ErrNotListed = errors.New("the runtime has not been listed yet")

// ErrNotTold is why an engine is not healthy whose first good listing is not handed
// on yet: who takes over from one that ran before must not take what was told so far
// for all there is.
var ErrNotTold = errors.New("what the first listing showed is not told yet")

// health remembers how the global relists went.
type health struct {
	threshold time.Duration
	log       *slog.Logger

	mu       sync.Mutex
	lastGood time.Time
	lastErr  error
}

func (h *health) listed(res Result) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case res.Err != nil && h.lastErr == nil:
		h.log.Warn("relist failed; trying again", "err", res.Err)
	case res.Err == nil && h.lastErr != nil:
		h.log.Info("relist works again", "took", res.Took)
	}
	h.lastErr = res.Err
	if res.Err == nil {
		h.lastGood = res.At
	}
}

func (h *health) everListed() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return !h.lastGood.IsZero()
}

// Healthy is nil while the last good listing of everything is recent enough, and
// otherwise says why not. It is not nil before all that the first one showed was
// handed on.
func (e *Engine) Healthy() error {
	inFlight := e.InFlight()
	h := &e.health
	h.mu.Lock()
	defer h.mu.Unlock()

	var problem error
	if h.lastGood.IsZero() {
		problem = ErrNotListed
	} else if age := time.Since(h.lastGood); age > h.threshold {
		problem = fmt.Errorf("the last good listing is %s old, more than %s", age.Round(time.Second), h.threshold)
	} else if e.telling() {
		return ErrNotTold
	} else {
		return nil
	}
	if inFlight >= time.Second {
		problem = fmt.Errorf("%w; one has been under way for %s", problem, inFlight.Round(time.Second))
	}
	if h.lastErr != nil {
		problem = fmt.Errorf("%w; the last one failed: %w", problem, h.lastErr)
	}
	return problem
}

// LastListed is when the last good listing of everything was begun; zero before
// the first.
func (e *Engine) LastListed() time.Time {
	e.health.mu.Lock()
	defer e.health.mu.Unlock()
	return e.health.lastGood
}
