package client

import (
	"math/rand/v2"
	"time"
)

// The pauses between attempts to connect. A unix socket where nobody listens costs
// next to nothing to try, and a daemon that was restarted is back within a second.
const (
	backoffLeast = 50 * time.Millisecond
	backoffMost  = 3 * time.Second
)

// pauses says how long to wait before the next attempt to connect. The zero value
// stands after an attempt that went well.
type pauses struct {
	failures int
}

// worked notes that a connection was of use: the next attempt is made at once.
func (p *pauses) worked() { p.failures = 0 }

// next returns the pause before the next attempt: none after a connection that
// worked, and then ever longer ones, each with half of it left to chance, so that
// many clients don't come back at one moment.
func (p *pauses) next() time.Duration {
	if p.failures == 0 {
		p.failures = 1
		return 0
	}
	d := backoffMost
	if shift := p.failures - 1; shift < 16 {
		d = min(d, backoffLeast<<shift)
	}
	p.failures++
	return d/2 + rand.N(d/2+1)
}
