package trigger

import (
	"cmp"
	"slices"
	"time"
)

// Next decides what to look at now. It is to be called again until it decides
// on nothing more; wake, which is after now, is when to ask then if nothing else
// happens before.
func (s *Scheduler) Next(now time.Time) (looks []Look, wake time.Time) {
	wake = now.Add(s.opts.Period)
	sooner := func(t time.Time) {
		if !t.IsZero() && t.Before(wake) {
			wake = t
		}
	}
	unannounced, judge := s.period.judge(now)
	if unannounced > 0 {
		s.obs.Unannounced(unannounced)
	}
	sooner(judge)

	if !s.upAgain.IsZero() && !s.upAgain.After(now) {
		s.upAgain = time.Time{}
		s.askAll(now, ReasonSourceUp)
	}
	sooner(s.upAgain)
	if s.allFlight == 0 {
		if due, reason := s.allDue(now); !due.After(now) {
			looks = append(looks, s.lookAtAll(reason, now))
		} else {
			sooner(due)
		}
	}
	if s.away || !s.listed && s.allFails == 0 {
		// Whatever is pending waits for the runtime to answer, and the look at
		// everything that finds out.
		return looks, wake
	}
	if ready := s.bucket.ready(now); ready.After(now) {
		if !s.soonest.IsZero() {
			sooner(later(s.soonest, ready))
		}
		return looks, wake
	}
	due, next := s.duePods(now)
	sooner(next)
	if len(due) == 0 {
		return looks, wake
	}
	more, patience := s.lookAt(due, now)
	sooner(patience)
	return append(looks, more...), wake
}

// lookAt decides how to look at the pods that are due: at each, or at all. wait is
// when to decide anew.
func (s *Scheduler) lookAt(due []*pending, now time.Time) (looks []Look, wait time.Time) {
	all, reason := 0, ReasonRequest
	needAll := false
	for _, p := range due {
		if p.reinspect {
			continue // must be looked at by itself
		}
		all++
		needAll = needAll || p.needsAll(s.view)
		if !p.requested || len(p.watches) > 0 {
			reason = ReasonSignal
		}
	}
	many := all > s.opts.GlobalAbove || all > 1 && s.bucket.tokens < float64(all)
	if float64(all)*s.podCost.tokens() < s.allCost.tokens() {
		many = false // so much else is there that looking at each pod is cheaper
	}
	switch patience := s.allBegan.Add(flightPatience); {
	case !many && !needAll:
	case s.allFlight != 0 && many && now.Before(patience):
		// One at everything comes next, when the one under way has ended.
		return nil, patience
	case s.allFlight == 0 && s.allFails == 0:
		s.bucket.take(now)
		return []Look{s.lookAtAll(reason, now)}, wait
	}
	for _, p := range due {
		// Those that must wait for a look under way are decided on when it ends.
		if s.podFlights == maxPodFlights || p.needsAll(s.view) {
			continue
		}
		if !s.bucket.take(now) {
			return looks, s.bucket.ready(now)
		}
		looks = append(looks, s.lookAtPod(p, now))
	}
	return looks, wait
}

// allDue is when to look at everything next, and why.
func (s *Scheduler) allDue(now time.Time) (time.Time, Reason) {
	if s.lastAll.IsZero() {
		return s.all, ReasonStartup
	}
	gap := s.period.current(now)
	if gap != s.told {
		s.told = gap
		s.obs.Period(gap)
	}
	reason := ReasonPeriodic
	if !s.listed {
		reason = ReasonStartup
	}
	if s.away || s.allFails > 0 {
		// Nothing is known while listing fails, so it is tried often, and the more so
		// where it costs nothing.
		gap = min(gap, s.opts.PeriodDegraded)
		if s.away {
			gap = min(gap, lookRetryFirst<<min(max(s.allFails-1, 0), 10))
		}
		return s.lastAll.Add(gap), reason
	}
	due := s.lastAll.Add(gap)
	if !s.all.IsZero() {
		if asked := later(s.all, s.bucket.ready(now)); asked.Before(due) {
			return asked, s.allReason
		}
	}
	return due, reason
}

// duePods are the pods to look at now, the longest waiting first, and next when
// the next of the others is due.
func (s *Scheduler) duePods(now time.Time) (pods []*pending, next time.Time) {
	type waiting struct {
		p  *pending
		at time.Time
	}
	if s.soonest.IsZero() || s.soonest.After(now) {
		return nil, s.soonest
	}
	var due []waiting
	for _, p := range s.pods {
		switch at := p.due(); {
		case at.IsZero():
		case !at.After(now):
			due = append(due, waiting{p, at})
		case next.IsZero() || at.Before(next):
			next = at
		}
	}
	if s.soonest = next; len(due) > 0 {
		s.soonest = now // those that can't be looked at yet are due still
	}
	slices.SortFunc(due, func(a, b waiting) int {
		return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.p.key.uid, b.p.key.uid), cmp.Compare(a.p.key.id, b.p.key.id))
	})
	for _, w := range due {
		pods = append(pods, w.p)
	}
	return pods, next
}

// lookAtAll covers the pods that are due. Others are shown as well, and put down to
// what announced them.
func (s *Scheduler) lookAtAll(reason Reason, now time.Time) Look {
	s.number++
	look := Look{Reason: reason, number: s.number, hints: make(map[string]Hint)}
	s.allFlight, s.allBegan = s.number, now
	for _, p := range s.pods {
		p.addHints(look.hints)
		if at := p.due(); at.IsZero() || at.After(now) || p.reinspect {
			continue
		}
		p.flight, p.patience = s.number, now.Add(flightPatience)
	}
	if reason != ReasonPeriodic && reason != ReasonStartup && reason != ReasonSignal {
		s.bucket.take(now)
	}
	return look
}

func (s *Scheduler) lookAtPod(p *pending, now time.Time) Look {
	s.number++
	look := Look{
		PodUID: p.key.uid, Reason: ReasonSignal, Reinspect: p.reinspect,
		number: s.number, hints: make(map[string]Hint, len(p.watches)+1),
	}
	if p.requested {
		look.Reason = ReasonRequest
	}
	p.flight, p.patience = s.number, time.Time{}
	p.addHints(look.hints)
	for _, w := range p.watches {
		if (w.expect == expectStarted || w.expect == expectExited) && !w.due.After(now) {
			look.Expect = append(look.Expect, w.id)
		}
	}
	s.podFlights++
	return look
}
