package serve

import (
	"errors"
	"sync"
)

var (
	errFull   = errors.New("full")
	errEnding = errors.New("the daemon ends: connect again and resume")
)

// gate counts those inside, lets in no more than some, and at the end nobody.
type gate struct {
	most int // 0: no bound

	mu     sync.Mutex
	inside int
	shut   bool
	empty  chan struct{} // closed once shut and nobody is inside
}

func newGate(most int) *gate { return &gate{most: most, empty: make(chan struct{})} }

// enter fails with errFull or errEnding. Who entered must leave once.
func (g *gate) enter() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.shut:
		return errEnding
	case g.most > 0 && g.inside >= g.most:
		return errFull
	}
	g.inside++
	return nil
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inside--
	if g.shut && g.inside == 0 {
		close(g.empty)
	}
}

// close lets nobody in any more. The channel it returns is closed when all have left.
func (g *gate) close() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.shut {
		g.shut = true
		if g.inside == 0 {
			close(g.empty)
		}
	}
	return g.empty
}

func (g *gate) count() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.inside
}
