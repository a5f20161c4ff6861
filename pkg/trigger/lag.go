package trigger

import (
	"math"
	"time"
)

// How a lag is learned.
const (
	// lagStep is how far one case may move a delay, as a logarithm: some twenty
	// cases take it from any start to where it belongs, and follow a runtime that
	// became three times slower.
	lagStep = 0.2
	// lagSmallest is the delay from which a miss makes one of zero grow.
	lagSmallest = 250 * time.Microsecond
	// lagLargest keeps a runtime's bad minute from spoiling the next hour.
	lagLargest = 400 * time.Millisecond
	// A look may be held up, by another or by the bucket. If it was by more than
	// heldUp, that it found the state turned says nothing of the delay. Where a
	// later signal made for the look, it came soon after the state turned; what it
	// took longer than followSlack is taken for lag.
	heldUp      = 2 * time.Millisecond
	followSlack = 500 * time.Microsecond
)

// The shares of cases that looks aim at. The first look finds half of the changes and
// the second half of the rest; with gaps growing by gapFactor after that, it takes two
// looks a change, whatever the spread of the lags. Of the plans tried in the
// simulation, earlier looks took more of them, and later ones found the change later.
const (
	shareFirst  = 0.5
	shareSecond = 0.5
	// shareBacked is aimed at where a later signal usually says it better: then a
	// look of one's own is only for when that signal fails to come.
	shareBacked = 0.95
	// followedMost is the share of cases in which a later signal came before a look of
	// one's own was any good, from which on a lag counts as backed; below followedLeast
	// it does no more. followStep is how fast the share follows.
	followedMost  = 0.85
	followedLeast = 0.7
	followStep    = 0.125
	// trialEvery: of so many signals whose lag is backed one is looked after as if it
	// were not, to see whether that is still so.
	trialEvery = 8
)

// lagKey tells apart what has a lag of its own.
type lagKey struct {
	source SourceName
	kind   Kind
	expect expectation
	// fresh: of a pod without records. What appears there is a sandbox, which is
	// listed only when it is complete; a container is listed before it has a cgroup.
	fresh bool
}

// derived says that the expectation is not what the signal itself announced, but
// what follows it.
func (k lagKey) derived() bool {
	return k.kind == KindCgroupAdded && k.expect == expectStarted && !k.fresh
}

// lag is what was learned of how long after a kind of signal the runtime shows
// what it announced. The delays are quantiles, learned by stochastic approximation
// (Robbins and Monro 1951) on the logarithm: each case moves a delay a step up or
// down, in such proportion that the steps balance at the share aimed at. It needs
// no history, and works although a look tells only whether the state had turned by
// then and not when.
type lag struct {
	// first is the delay of the first look, far the same while backed, gap that from
	// a first look in vain to the second.
	first, far, gap time.Duration
	// followed is the share of cases, as far as it was tried, in which a later signal
	// came first. backed follows from it, and from what it was before: between its two
	// bounds a lag stays as it is.
	followed float64
	backed   bool
	// cases counts the signals, for the trials.
	cases int
}

func newLag(key lagKey) *lag {
	d := firstDelay(key)
	return &lag{first: d, far: 2 * d, gap: max(d/4, gapLeast)}
}

// next is how long after a signal that has just come to look, and whether that is to
// find out if looking by itself is any good.
func (l *lag) next() (delay time.Duration, alone bool) {
	l.cases++
	if l.backed && l.cases%trialEvery != 0 {
		return max(l.first, l.far), false
	}
	return l.first, true
}

// observe learns from a signal whose announcement a look begun at found has shown
// to have come true. next is when the next signal for the same came; zero: none
// did.
func (l *lag) observe(h heard, next, found time.Time) {
	switch {
	case next.IsZero():
		l.followed -= l.followed * followStep
	case h.alone:
		l.followed += (1 - l.followed) * followStep
	}
	switch {
	case l.followed >= followedMost:
		l.backed = true
	case l.followed < followedLeast:
		l.backed = false
	}
	led := !next.IsZero() && !next.After(found)
	var missed time.Duration
	if h.early > 0 {
		missed = h.missed.Sub(h.at)
	}
	took := found.Sub(h.at)
	learn(&l.first, shareFirst, missed, took, led)
	learn(&l.far, shareBacked, missed, took, led)
	if !led && h.alone && h.early > 0 {
		move(&l.gap, h.early == 1, shareSecond)
		l.gap = max(l.gap, gapLeast)
	}
}

// learn moves a delay if it can be told whether it would have been long enough: the
// state turned after missed (0: no look was in vain) and before took.
func learn(d *time.Duration, share float64, missed, took time.Duration, led bool) {
	slack := heldUp
	if led {
		slack = followSlack
	}
	switch {
	case took <= *d+slack:
		move(d, true, share)
	case led, missed > 0 && missed >= *d:
		move(d, false, share)
	}
}

// move takes a step: down after a hit, up after a miss.
func move(d *time.Duration, hit bool, share float64) {
	if hit {
		*d = time.Duration(float64(*d) * math.Exp(-lagStep*(1-share)))
		if *d < lagSmallest/2 {
			*d = 0
		}
		return
	}
	*d = max(*d, lagSmallest)
	*d = min(time.Duration(float64(*d)*math.Exp(lagStep*share)), lagLargest)
}

// firstDelay is where learning starts: measured with containerd 2.2 (exec to
// RUNNING 3 ms, exit to EXITED 24–30 ms; a cgroup is made and populated some 40 ms
// before the workload's exec, a sandbox's some 80 ms before the sandbox is listed,
// and removed just before the state turns). The runtime's own events come after the
// state.
func firstDelay(key lagKey) time.Duration {
	switch {
	case key.source == SourceCRI:
		return 0
	case key.expect == expectListed && !key.fresh:
		return 0
	case key.source == SourceCgroup && key.expect <= expectStarted && key.fresh:
		return 80 * time.Millisecond
	case key.source == SourceCgroup && key.expect == expectStarted:
		return 40 * time.Millisecond
	case key.kind == KindExited:
		return 25 * time.Millisecond
	default:
		return 3 * time.Millisecond
	}
}
