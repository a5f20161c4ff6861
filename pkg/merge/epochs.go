package merge

import (
	"fmt"
	"slices"
)

// maxEpochs bounds how many epochs are known. A process that is started over and
// over on an idle node makes one each time, and none of them leaves the journal.
const maxEpochs = 64

// Epoch is what is known of one start of the process: it numbered the events First
// to Last. Last is First-1 while there is none.
type Epoch struct {
	Name  string `json:"name"`
	First uint64 `json:"first"`
	Last  uint64 `json:"last"`
}

// holds reports whether a token of the epoch can name the place after event
// sequence.
func (e Epoch) holds(sequence uint64) bool { return sequence+1 >= e.First && sequence <= e.Last }

// epochs are those of a log: its own, which still grows, and the ones before. It is
// not changed after the log was made, so anyone may read it.
type epochs struct {
	past  []Epoch // one after another without a gap, the oldest first
	name  string
	first uint64
}

// since makes the epochs of a log that goes on after others.
func since(past []Epoch, name string) (epochs, error) {
	e := epochs{past: past[max(0, len(past)-(maxEpochs-1)):], name: name, first: 1}
	if len(past) > 0 {
		e.first = past[len(past)-1].Last + 1
	}
	// A name used twice would make tokens of events that were lost look like those
	// of others.
	if slices.ContainsFunc(past, func(p Epoch) bool { return p.Name == name }) {
		return epochs{}, fmt.Errorf("the epoch %q was used before: each start needs its own", name)
	}
	return e, nil
}

// token names the place after event sequence, which is at most the head, by the
// latest epoch that knows it.
func (e *epochs) token(sequence uint64) Token {
	if sequence+1 < e.first {
		for _, p := range slices.Backward(e.past) {
			if p.holds(sequence) {
				return Token{p.Name, sequence}
			}
		}
	}
	return Token{e.name, sequence}
}

// known reports whether t names a place at or before head.
//
// A place beyond what is known of an epoch before the log's own is none: the process
// ended before its last events were kept, and their numbers are those of others now.
func (e *epochs) known(t Token, head uint64) bool {
	if t.Epoch == e.name {
		return Epoch{e.name, e.first, head}.holds(t.Sequence)
	}
	return slices.ContainsFunc(e.past, func(p Epoch) bool { return p.Name == t.Epoch && p.holds(t.Sequence) })
}

// spans lists the epochs that some token still resumes of, the log's own last, when
// the journal has the events from oldest to last.
func (e *epochs) spans(oldest, last uint64) []Epoch {
	spans := make([]Epoch, 0, len(e.past)+1)
	for _, p := range e.past {
		if p.Last+1 >= oldest {
			spans = append(spans, p)
		}
	}
	return append(spans, Epoch{e.name, e.first, last})
}
