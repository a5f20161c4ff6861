package trigger

import (
	"cmp"
	"slices"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
)

// Done takes the result of a look that Next decided on.
func (s *Scheduler) Done(res Looked, now time.Time) {
	all := res.Look.PodUID == ""
	if all {
		s.allFlight = 0
		s.lastAll = now
	} else {
		s.podFlights--
	}
	if res.Err != nil {
		s.failed(res, now)
		return
	}
	if res.Look.Reason != ReasonPeriodic && res.Look.Reason != ReasonStartup {
		s.bucket.charge(res.At, res.Took)
	}
	if all {
		s.allCost.learn(res.Took)
	} else {
		s.podCost.learn(res.Took)
	}
	s.answers(now)
	if !all {
		if p := s.pods[podKey{uid: res.Look.PodUID}]; p != nil {
			s.evaluate(p, res, now)
		}
		return
	}
	if !s.listed {
		// Nothing was looked for before.
		s.prolong(settleBudget, now)
	}
	s.listed, s.allFails = true, 0
	s.all = time.Time{}
	if s.allAsked.After(res.At) {
		s.all, s.allReason = s.allAsked, s.lastReason
	}
	// An early look at everything takes the place of the periodic one, so that what
	// it found by the way must have been announced as well.
	if (res.Look.Reason == ReasonPeriodic || res.Look.Reason == ReasonSignal) && s.period.proven(res.At) {
		s.suspect(res.Found, now)
	}
	for _, p := range s.pods {
		s.evaluate(p, res, now)
	}
	s.refile(now)
}

// refile moves what is pending on containers whose pods are known by now, so that
// the pods alone are looked at from here on.
func (s *Scheduler) refile(now time.Time) {
	var known []podKey
	for key := range s.pods {
		if key.uid == "" {
			if uid := s.view.PodOf(key.id); uid != "" {
				known = append(known, podKey{uid, key.id})
			}
		}
	}
	slices.SortFunc(known, func(a, b podKey) int { return cmp.Compare(a.id, b.id) })
	for _, key := range known {
		if p := s.pendingAt(podKey{uid: key.uid}, key.id, now); p != nil {
			s.dueBy(p)
		}
	}
}

// answers takes note that the runtime does. The time for which it did not does not
// count against the budgets, as nothing could be looked at. It is no reason for new
// ones: one that does so now and then would have things looked for without end.
func (s *Scheduler) answers(now time.Time) {
	if s.away {
		s.away = false
		s.prolong(now.Sub(s.awaySince), now)
	}
}

// prolong gives all that is followed more time, but nothing more than a whole
// budget from now on.
func (s *Scheduler) prolong(by time.Duration, now time.Time) {
	most := now.Add(settleBudget)
	for _, p := range s.pods {
		for _, w := range p.watches {
			if w.until = w.until.Add(by); w.until.After(most) {
				w.until = most
			}
		}
	}
}

// failed puts off what the look was for.
func (s *Scheduler) failed(res Looked, now time.Time) {
	all := res.Look.PodUID == ""
	switch {
	case !res.Unavailable:
		s.answers(now)
	case !s.away:
		s.away, s.awaySince = true, res.At
		if res.At.IsZero() {
			s.awaySince = now
		}
	}
	if all {
		s.allFails++
	}
	for key, p := range s.pods {
		covered := p.flight == res.Look.number
		if covered {
			p.flight = 0
		}
		// With the runtime away, what is pending waits for it to be back, and no longer.
		// But it may be only for this pod's look that it does not answer.
		if covered && (!res.Unavailable || !all) {
			p.notBefore = now.Add(min(lookRetryFirst<<min(p.fails, 10), podRetryLast))
			p.fails++
		}
		s.dropGone(p, now)
		if p.empty() {
			delete(s.pods, key)
		} else if covered {
			s.dueBy(p)
		}
	}
}

// suspect notes the starts and exits that were found without having been looked
// for.
func (s *Scheduler) suspect(found []Found, now time.Time) {
	for _, f := range found {
		switch f.State {
		case event.StateRunning:
			s.period.found(announcement{f.ID, expectStarted}, now)
		case event.StateExited:
			s.period.found(announcement{f.ID, expectExited}, now)
		}
	}
}

// evaluate compares what was pending on a pod with the records after a look.
func (s *Scheduler) evaluate(p *pending, res Looked, now time.Time) {
	if p.flight == res.Look.number {
		p.flight = 0
	}
	// A look at everything says nothing of how one fares that it does not stand in for.
	if res.Look.PodUID != "" || !p.reinspect {
		p.fails, p.notBefore = 0, time.Time{}
	}
	switch {
	case p.want.IsZero():
	case p.asked.After(res.At):
		// Asked for since, or to be looked at only then: the next look serves both.
		if !p.want.After(res.At) {
			p.want = p.asked
		}
	case !p.reinspect || res.Look.Reinspect:
		p.want, p.hint, p.requested, p.reinspect = time.Time{}, Hint{}, false, false
	}
	gaveUp := false
	p.watches = slices.DeleteFunc(p.watches, func(w *watch) bool {
		if w.expect.met(s.view.State(w.id), s.view.Seen(w.id)) {
			s.settled(w, res)
			return true
		}
		w.gone = w.gone && !s.view.Seen(w.id)
		if w.due.After(res.At) {
			return false
		}
		w.miss(res.At, now)
		if w.gone || !w.spent(now) {
			return false
		}
		gaveUp = true
		s.giveUp(w, now)
		return true
	})
	if gaveUp {
		s.dropForeign(p, now)
	}
	s.dropGone(p, now)
	if p.empty() {
		delete(s.pods, p.key)
		return
	}
	s.dueBy(p)
}

// settled learns from a watch that has ended well.
func (s *Scheduler) settled(w *watch, res Looked) {
	for i, h := range w.signals[:w.n] {
		var next time.Time
		if i+1 < w.n {
			next = w.signals[i+1].at
		}
		s.lags[h.key].observe(h, next, res.At)
		s.report(h.key, OutcomeSettled, max(0, res.At.Sub(h.at)), h.early+1)
	}
}

// giveUp leaves what a watch announced to the period.
func (s *Scheduler) giveUp(w *watch, now time.Time) {
	outcome := OutcomeOpen
	if !s.view.Seen(w.id) {
		if w.foreign || w.again {
			outcome = OutcomeForeign
			s.foreign.add(w.id)
		}
		if !w.foreign {
			s.unlisted.add(w.id)
			// One that still runs may be listed yet: a sandbox on a busy machine takes
			// longer than the budget.
			if gone := w.gone || w.expect == expectExited; gone && w.ran() && s.missed.add(w.id) {
				s.obs.Missed(w.id)
			}
		}
	}
	for _, h := range w.signals[:w.n] {
		s.report(h.key, outcome, now.Sub(h.at), h.early)
	}
}

// dropForeign gives up what else was announced of containers that turned out not
// to be this runtime's.
func (s *Scheduler) dropForeign(p *pending, now time.Time) {
	p.watches = slices.DeleteFunc(p.watches, func(w *watch) bool {
		drop := s.foreign.has(w.id) && !s.view.Seen(w.id)
		if drop {
			s.giveUp(w, now)
		}
		return drop
	})
}

// tooLate gives up a container that the runtime says it holds no more and that no
// listing has shown: none to come will.
func (s *Scheduler) tooLate(key podKey, id string, now time.Time) {
	if s.pods[key] == nil && s.pods[podKey{id: id}] == nil {
		return
	}
	p := s.pendingAt(key, id, now)
	for _, w := range p.watches {
		w.gone = w.gone || w.id == id
	}
	s.dropGone(p, now)
}

// dropGone gives up what was announced of containers that are no more, unless a
// look under way may still show them: it may have been begun before they went.
func (s *Scheduler) dropGone(p *pending, now time.Time) {
	if s.mayShow(p) {
		return
	}
	p.watches = slices.DeleteFunc(p.watches, func(w *watch) bool {
		if w.gone {
			s.giveUp(w, now)
		}
		return w.gone
	})
	if p.empty() {
		delete(s.pods, p.key)
	}
}

// mayShow reports whether a look is under way that shows what is pending.
func (s *Scheduler) mayShow(p *pending) bool {
	return s.allFlight != 0 || p != nil && p.flight != 0
}

func (s *Scheduler) report(key lagKey, outcome Outcome, after time.Duration, looks int) {
	if !key.derived() {
		s.obs.Settled(key.source, key.kind, outcome, after, looks)
	}
}
