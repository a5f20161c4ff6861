package trigger

import (
	"cmp"
	"time"
)

// podKey names the work pending on a pod, or on a container whose pod is not
// known yet.
type podKey struct {
	uid, id string
}

const (
	// maxWatches bounds what is followed in one pod at a time.
	maxWatches = 256
	// podLooks is how many looks at a pod may fail to show a container before
	// everything is looked at: the runtime may file it under another pod.
	podLooks = 2
	// flightPatience is how long a look at everything keeps those at single pods
	// waiting that it covers. In a runtime that hangs on one item, others may still
	// be had.
	flightPatience = 50 * time.Millisecond
)

// pending is all that is still to be looked at in one pod.
type pending struct {
	key podKey
	// want is when a look is due that announces nothing in particular; zero: none
	// is. A look begun before asked does not do.
	want, asked time.Time
	hint        Hint
	reinspect   bool
	requested   bool
	watches     []*watch

	// flight is the number of the look under way that covers this; 0: none. After
	// patience it no longer counts; zero: until it ends.
	flight   uint64
	patience time.Time
	// notBefore holds the next look back after one that failed.
	notBefore time.Time
	fails     int
}

// ask makes a look due at a time.
func (p *pending) ask(at time.Time, hint Hint) {
	if p.want.IsZero() || at.Before(p.want) {
		p.want = at
	}
	p.asked = later(p.asked, at)
	if hint.Source != "" {
		p.hint = hint
	}
}

func (p *pending) watch(id string, x expectation) *watch {
	for _, w := range p.watches {
		if w.id == id && w.expect == x {
			return w
		}
	}
	return nil
}

// due is when to look next; zero when there is nothing to look for, or a look under
// way will do.
func (p *pending) due() time.Time {
	if p.flight != 0 && p.patience.IsZero() {
		return time.Time{}
	}
	due := p.want
	for _, w := range p.watches {
		if !w.gone && (due.IsZero() || w.due.Before(due)) {
			due = w.due
		}
	}
	if due.IsZero() {
		return due
	}
	if p.flight != 0 {
		due = later(due, p.patience)
	}
	return later(due, p.notBefore)
}

func (p *pending) empty() bool {
	return p.want.IsZero() && len(p.watches) == 0 && p.flight == 0
}

// needsAll reports whether looking at the pod alone will not do: the pod is not
// known, or looking at it did not show a container that is said to be there.
func (p *pending) needsAll(view View) bool {
	if p.key.uid == "" {
		return true
	}
	for _, w := range p.watches {
		if !w.gone && w.looks >= podLooks && !view.Seen(w.id) {
			return true
		}
	}
	return false
}

// takeOver moves what was pending on a container while its pod was not known. It
// returns the signals that are not needed, as others announced the same to the pod.
func (p *pending) takeOver(q *pending) (spare []heard) {
	for _, w := range q.watches {
		if same := p.watch(w.id, w.expect); same != nil {
			same.gone = same.gone || w.gone
			spare = append(spare, w.signals[:w.n]...)
			continue
		}
		p.watches = append(p.watches, w)
	}
	if !q.want.IsZero() {
		p.ask(q.want, q.hint)
		p.asked = later(p.asked, q.asked)
	}
	if p.flight == 0 {
		p.flight, p.patience = q.flight, q.patience
	}
	return spare
}

// addHints puts down what led to looking.
func (p *pending) addHints(hints map[string]Hint) {
	if p.hint.Source != "" {
		hints[cmp.Or(p.key.uid, p.key.id)] = p.hint
	}
	for _, w := range p.watches {
		h := Hint{Source: w.last().key.source, At: w.last().at}
		hints[w.id] = h
		if p.key.uid != "" && p.hint.Source == "" {
			hints[p.key.uid] = h
		}
	}
}
