package trigger

import (
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
)

// A signal from the kernel beats the runtime's own state: a look taken at once
// finds nothing. What it announced is therefore expected, and the pod is looked
// at until the records show it: first after the delay learned for such signals,
// then after growing gaps, until the budget ends.

// expectation is what a signal makes one expect of a container's record.
type expectation uint8

const (
	expectListed expectation = iota
	expectStarted
	expectExited
	expectRemoved
	expectNothing
)

// expects says what to expect after a signal, in a pod without records when fresh.
// A runtime makes the cgroup when it starts the container (or, some, when it
// creates it): on cgroup v1, where nothing tells of processes, that is all there
// is to announce the start. A sandbox is listed when it runs, not before.
func (k Kind) expects(fresh bool) []expectation {
	switch k {
	case KindCreated:
		return []expectation{expectListed}
	case KindCgroupAdded:
		if fresh {
			return []expectation{expectStarted}
		}
		return []expectation{expectListed, expectStarted}
	case KindStarted:
		return []expectation{expectStarted}
	case KindExited, KindCgroupRemoved:
		return []expectation{expectExited}
	case KindRemoved:
		return []expectation{expectRemoved}
	default:
		return nil
	}
}

// met reports whether the record shows what is expected. seen says that a
// listing has shown the container at some time: one that was never listed has not
// exited, it has yet to appear.
func (x expectation) met(state event.State, seen bool) bool {
	switch x {
	case expectListed:
		return seen
	case expectStarted:
		return seen && state != event.StateCreated
	case expectExited:
		return seen && (state == event.StateExited || state == event.StateNonExistent)
	case expectRemoved:
		return state == event.StateNonExistent
	default:
		return true
	}
}

const (
	// settleBudget is how long something announced is looked for.
	settleBudget = 5 * time.Second
	// doubtfulLooks is how often a container is looked for that may not be the
	// runtime's at all.
	doubtfulLooks = 2
	// The gap after a look in vain starts as learned, and grows by the factor.
	gapFactor = 1.6
	gapLeast  = 500 * time.Microsecond
	gapMost   = time.Second
	// signalsPerWatch is how many sources and kinds can announce the same thing.
	signalsPerWatch = 4
)

// watch follows one thing announced about one container until it is settled.
type watch struct {
	id     string
	expect expectation
	// foreign: all signals said so. again: it was looked for in vain before.
	foreign, again bool
	// gone: the runtime said that it holds the container no more, before a listing
	// showed it. Only a look begun earlier and still under way may.
	gone bool
	// signals are those that announced it, one of a source and kind.
	signals [signalsPerWatch]heard
	n       int
	// due is when to look next, looks how many looks found it unsettled, gap how
	// long to wait after the next such.
	due   time.Time
	looks int
	gap   time.Duration
	until time.Time
}

// heard is one signal of a watch.
type heard struct {
	key lagKey
	at  time.Time
	// early counts the looks since that found nothing; missed is when the last of
	// them was begun.
	early  int
	missed time.Time
	// alone: the look was to come before any later signal.
	alone bool
}

func (w *watch) last() heard { return w.signals[w.n-1] }

// hear adds a signal; false when it is a repetition, which moves nothing. The
// newest kind of signal sets when to look: whatever comes later is nearer to the
// change. A look that is due already stays due: signals may arrive out of order,
// and the kernel's, come late, must not put off what the runtime's has announced.
func (w *watch) hear(key lagKey, sig Signal, l *lag, now time.Time) bool {
	for _, h := range w.signals[:w.n] {
		if h.key == key {
			return false
		}
	}
	if w.n == len(w.signals) {
		return false
	}
	delay, alone := l.next()
	if due := later(now, sig.At.Add(delay)); w.n == 0 || w.due.After(now) {
		w.due = due
	}
	w.signals[w.n] = heard{key: key, at: sig.At, alone: alone}
	w.n++
	w.foreign = w.foreign && sig.Foreign
	w.gap = l.gap
	return true
}

// miss notes a look begun at, that found nothing, and sets when to look again.
func (w *watch) miss(at, now time.Time) {
	w.looks++
	for i := range w.signals[:w.n] {
		if h := &w.signals[i]; !h.at.After(at) {
			h.early++
			h.missed = at
		}
	}
	w.due = now.Add(w.gap)
	w.gap = min(time.Duration(float64(w.gap)*gapFactor), gapMost)
}

// spent reports whether the watch is to be given up.
func (w *watch) spent(now time.Time) bool {
	return !now.Before(w.until) || (w.foreign || w.again) && w.looks >= doubtfulLooks
}

// ran reports whether the kernel said that the container's workload ran.
func (w *watch) ran() bool {
	for _, h := range w.signals[:w.n] {
		if h.key.source != SourceCRI && (h.key.kind == KindStarted || h.key.kind == KindExited) {
			return true
		}
	}
	return false
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
