package trigger

import (
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
		s.bucket.charge(res.Took)
	}
	s.away = false
	if !all {
		if p := s.pods[podKey{uid: res.Look.PodUID}]; p != nil {
			s.evaluate(p, res, now)
		}
		return
	}
	s.listed, s.allFails = true, 0
	s.all = time.Time{}
	if s.allAsked.After(res.At) {
		s.all, s.allReason = s.allAsked, s.lastReason
	}
	// An early look at everything takes the place of the periodic one, so that what
	// it found by the way must have been announced as well.
	if (res.Look.Reason == ReasonPeriodic || res.Look.Reason == ReasonSignal) && len(s.period.down) == 0 {
		s.suspect(res.Found, now)
	}
	for _, p := range s.pods {
		s.evaluate(p, res, now)
	}
}

// failed puts off what the look was for.
func (s *Scheduler) failed(res Looked, now time.Time) {
	s.away = res.Unavailable
	if res.Look.PodUID == "" {
		s.allFails++
	}
	for key, p := range s.pods {
		if p.flight != res.Look.number {
			continue
		}
		p.flight = 0
		// With the runtime away, what is pending waits for it to be back, and no longer.
		if !res.Unavailable {
			p.notBefore = now.Add(min(lookRetryFirst<<min(p.fails, 10), podRetryLast))
			p.fails++
		}
		if p.empty() {
			delete(s.pods, key)
			continue
		}
		s.dueBy(p)
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
	p.fails, p.notBefore = 0, time.Time{}
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
		if w.due.After(res.At) {
			return false
		}
		w.miss(res.At, now)
		if !w.spent(now) {
			return false
		}
		gaveUp = true
		s.giveUp(w, false, now)
		return true
	})
	if gaveUp {
		s.dropForeign(p, now)
	}
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

// giveUp leaves what a watch announced to the period. gone says that the container
// is known to be no more.
func (s *Scheduler) giveUp(w *watch, gone bool, now time.Time) {
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
			if gone = gone || w.expect == expectExited; gone && w.ran() && s.missed.add(w.id) {
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
			s.giveUp(w, false, now)
		}
		return drop
	})
}

// tooLate gives up a container that the runtime says it holds no more and that no
// listing has shown: none will.
func (s *Scheduler) tooLate(key podKey, id string, now time.Time) {
	for _, key := range []podKey{key, {id: id}} {
		p := s.pods[key]
		if p == nil {
			continue
		}
		p.watches = slices.DeleteFunc(p.watches, func(w *watch) bool {
			if w.id == id {
				s.giveUp(w, true, now)
			}
			return w.id == id
		})
		if p.empty() {
			delete(s.pods, key)
		}
	}
}

func (s *Scheduler) report(key lagKey, outcome Outcome, after time.Duration, looks int) {
	if !key.derived() {
		s.obs.Settled(key.source, key.kind, outcome, after, looks)
	}
}
