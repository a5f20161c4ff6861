package client

import (
	"slices"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/merge"
)

// passed are the places up to which the caller has dealt with each numbering of events
// that it met, the one met last at the end.
type passed []merge.Token

// maxPassed bounds how many are remembered, at far more than a journal has.
const maxPassed = 256

// note takes in that the caller has dealt with all up to t.
func (p *passed) note(t merge.Token) {
	for i := range slices.Backward(*p) {
		if have := &(*p)[i]; have.Epoch == t.Epoch {
			have.Sequence = max(have.Sequence, t.Sequence)
			return
		}
	}
	if len(*p) == maxPassed {
		*p = slices.Delete(*p, 0, 1)
	}
	*p = append(*p, t)
}

// of returns the place in an epoch, if that was met.
func (p passed) of(epoch string) (sequence uint64, met bool) {
	for _, t := range slices.Backward(p) {
		if t.Epoch == epoch {
			return t.Sequence, true
		}
	}
	return 0, false
}

// has reports whether the caller has dealt with all up to t.
func (p passed) has(t merge.Token) bool {
	at, met := p.of(t.Epoch)
	return met && t.Sequence <= at
}
