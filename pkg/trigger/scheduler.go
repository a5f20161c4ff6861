package trigger

import (
	"cmp"
	"time"
)

// SchedulerOptions configures a [Scheduler]. The zero value works, without
// sources.
type SchedulerOptions struct {
	// Period is the gap from the end of one relist of everything to the start of
	// the next while the triggers prove themselves; 0 means 10 seconds.
	Period time.Duration
	// PeriodDegraded is the gap while they do not; 0 means one second.
	PeriodDegraded time.Duration
	// Sources are those that are wanted. Each counts as down until it is up.
	Sources []SourceName
	// Rate bounds the early looks a second, Burst those taken without waiting; 0
	// means 100.
	Rate, Burst float64
	// GlobalAbove is the number of pods waiting to be looked at above which one look
	// at all is taken instead, unless that has lately cost more than theirs would; 0
	// means 4.
	GlobalAbove int
	Observer    Observer
}

// Scheduler decides what to look at and when. It is a state machine: each input
// comes with the time, and nothing happens in between. It is not safe for
// concurrent use; see [Loop] for the goroutine around it.
type Scheduler struct {
	opts   SchedulerOptions
	view   View
	obs    Observer
	period period
	bucket bucket
	// podCost and allCost are what a look at one pod, and one at all, has lately cost.
	podCost, allCost cost
	lags             map[lagKey]*lag
	// foreign are containers that are not this runtime's, unlisted those that might
	// have been and were looked for in vain, missed those of them that ran.
	foreign, unlisted, missed recent[string]

	pods map[podKey]*pending
	// soonest is not after any pending pod is due: there is nothing to search for
	// before. Zero: none is due at any time.
	soonest time.Time
	// all is when a look at everything is due beside the periodic one, allReason why;
	// zero: none is. One begun before allAsked does not do for lastReason.
	all, allAsked         time.Time
	allReason, lastReason Reason
	// upAgain is when the second look is to be asked for after sources came up; zero:
	// no more.
	upAgain time.Time
	// allFlight is the number of the global look under way, podFlights how many of
	// single pods are.
	allFlight  uint64
	podFlights int
	number     uint64
	// allBegan is when the last global look was decided on, lastAll when it ended.
	allBegan, lastAll time.Time
	allFails          int
	// listed: a global look has succeeded. away: the runtime did not answer last,
	// since awaySince.
	listed, away bool
	awaySince    time.Time
	// told is the period that the observer knows of.
	told time.Duration
}

const (
	// maxPodFlights bounds the single-pod looks under way at once.
	maxPodFlights = 4
	// maxPending bounds the pods waiting. Beyond, one look at everything replaces
	// them.
	maxPending = 8192
	// podGone is how long after a pod's cgroup went to look at the pod.
	podGone = 5 * time.Millisecond
	// sourceUpDelay lets sources that come up together share one look.
	sourceUpDelay = 20 * time.Millisecond
	// sourceUpAgain is when everything is looked at once more after the last of them
	// came up. What happened just before shows only after the runtime's lag, and
	// nothing announces it: an exit on a busy node takes some 100 ms to show, and a
	// cgroup that was there already is populated up to 80 ms before the state turns.
	sourceUpAgain = time.Second
	// A failed look at a pod is repeated after waits from the first to the last of
	// these; one at everything, while the runtime does not answer, from the first on.
	lookRetryFirst = 100 * time.Millisecond
	podRetryLast   = 5 * time.Second
	// rememberIDs is how many IDs are remembered: the containers that a busy build
	// host makes beside the runtime's in some hours.
	rememberIDs = 4096
)

// NewScheduler returns a scheduler whose first look, at everything, is due at
// once.
func NewScheduler(opts SchedulerOptions, view View, now time.Time) *Scheduler {
	opts.Period = cmp.Or(max(opts.Period, 0), 10*time.Second)
	opts.PeriodDegraded = cmp.Or(max(opts.PeriodDegraded, 0), time.Second)
	opts.Rate = cmp.Or(max(opts.Rate, 0), 100)
	opts.Burst = max(cmp.Or(opts.Burst, 100), 1)
	opts.GlobalAbove = cmp.Or(max(opts.GlobalAbove, 0), maxPodFlights)
	if opts.Observer == nil {
		opts.Observer = NopObserver{}
	}
	return &Scheduler{
		opts:     opts,
		view:     view,
		obs:      opts.Observer,
		period:   newPeriod(opts.Period, opts.PeriodDegraded, opts.Sources),
		bucket:   newBucket(opts.Rate, opts.Burst, now),
		lags:     make(map[lagKey]*lag),
		foreign:  newRecent[string](rememberIDs),
		unlisted: newRecent[string](rememberIDs),
		missed:   newRecent[string](rememberIDs),
		pods:     make(map[podKey]*pending),
		all:      now, allAsked: now, allReason: ReasonStartup,
	}
}

// SourceState takes note that a source works, or no longer does.
func (s *Scheduler) SourceState(name SourceName, up bool, now time.Time) {
	if !up {
		s.period.down[name] = true
		return
	}
	if !s.period.down[name] {
		return
	}
	delete(s.period.down, name)
	s.period.up = now
	if name == SourceCRI {
		// An event stream proves that the runtime answers.
		s.answers(now)
		s.allFails = 0
	}
	s.askAll(now.Add(sourceUpDelay), ReasonSourceUp)
	s.upAgain = now.Add(sourceUpAgain)
}

// Request asks for a look at a pod, or at everything when uid is empty, as soon
// as possible.
func (s *Scheduler) Request(uid string, reinspect bool, now time.Time) {
	if uid == "" {
		s.askAll(now, ReasonRequest)
		return
	}
	p := s.pendingFor(podKey{uid: uid}, now)
	if p == nil {
		return
	}
	p.ask(now, Hint{})
	p.requested = true
	p.reinspect = p.reinspect || reinspect
	s.dueBy(p)
}

// Signal takes a signal.
func (s *Scheduler) Signal(sig Signal, now time.Time) {
	if sig.At.IsZero() || sig.At.After(now) {
		sig.At = now
	}
	s.obs.Signal(sig)
	switch {
	case sig.Kind == KindLost:
		s.period.degrade(now, degradedAfterLost)
		s.askAll(now, ReasonLost)
	case sig.ContainerID == "":
		s.podSignal(sig, now)
	default:
		s.containerSignal(sig, now)
	}
}

// podSignal takes a signal about a pod as a whole. That a pod's cgroup appeared
// says nothing yet: its sandbox's will follow.
func (s *Scheduler) podSignal(sig Signal, now time.Time) {
	gone := sig.Kind == KindCgroupRemoved || sig.Kind == KindRemoved
	hint := Hint{sig.Source, sig.At}
	switch {
	case sig.PodUID == "":
		s.askAll(now, ReasonSignal)
	case sig.Kind == KindCgroupAdded, gone && !s.view.HasPod(sig.PodUID):
		s.obs.Settled(sig.Source, sig.Kind, OutcomeAlready, 0, 0)
	default:
		at := now
		if sig.Kind == KindCgroupRemoved {
			at = now.Add(podGone)
		}
		if p := s.pendingFor(podKey{uid: sig.PodUID}, now); p != nil {
			p.ask(at, hint)
			s.dueBy(p)
		}
	}
}

// containerSignal takes a signal about a container or sandbox.
func (s *Scheduler) containerSignal(sig Signal, now time.Time) {
	id := sig.ContainerID
	seen := s.view.Seen(id)
	if !seen && s.foreign.has(id) {
		s.obs.Settled(sig.Source, sig.Kind, OutcomeForeign, 0, 0)
		return
	}
	key := podKey{uid: cmp.Or(s.view.PodOf(id), sig.PodUID)}
	if key.uid == "" {
		key.id = id
	}
	if !seen && sig.Kind == KindRemoved {
		s.tooLate(key, id, now)
	}
	fresh := !seen && key.uid != "" && !s.view.HasPod(key.uid)
	expects := sig.Kind.expects(fresh)
	if len(expects) == 0 {
		if p := s.pendingAt(key, id, now); p != nil {
			p.ask(now, Hint{sig.Source, sig.At})
			s.dueBy(p)
		}
		s.obs.Settled(sig.Source, sig.Kind, OutcomeAlready, 0, 0)
		return
	}
	if sig.Foreign && !seen {
		expects = expects[:1]
	}
	for _, x := range expects {
		s.expect(sig, lagKey{sig.Source, sig.Kind, x, fresh}, key, now)
	}
}

// expect follows what a signal announced, unless the records show it already.
func (s *Scheduler) expect(sig Signal, lk lagKey, key podKey, now time.Time) {
	id := sig.ContainerID
	if lk.expect == expectStarted || lk.expect == expectExited {
		s.period.announce(announcement{id, lk.expect})
	}
	met := lk.expect.met(s.view.State(id), s.view.Seen(id))
	if lk.expect == expectRemoved && !s.view.Seen(id) && s.mayShow(s.pods[key]) {
		met = false // once shown, it will have to be seen to go
	}
	if met {
		s.report(lk, OutcomeAlready, 0, 0)
		return
	}
	p := s.pendingAt(key, id, now)
	if p == nil {
		s.report(lk, OutcomeOpen, 0, 0)
		return
	}
	w := p.watch(id, lk.expect)
	if w == nil {
		if len(p.watches) >= maxWatches {
			s.overflow(now)
			s.report(lk, OutcomeOpen, 0, 0)
			return
		}
		w = &watch{id: id, expect: lk.expect, foreign: true, until: now.Add(settleBudget)}
		w.again = s.unlisted.has(id) && !s.view.Seen(id)
		p.watches = append(p.watches, w)
	}
	if !w.hear(lk, sig, s.lag(lk), now) {
		s.report(lk, OutcomeAlready, 0, 0)
	}
	s.dueBy(p)
}

func (s *Scheduler) lag(key lagKey) *lag {
	l := s.lags[key]
	if l == nil {
		l = newLag(key)
		s.lags[key] = l
	}
	return l
}

// pendingAt is what is pending on a container's pod; nil when too much is. What was
// pending on the container while its pod was not known goes along.
func (s *Scheduler) pendingAt(key podKey, id string, now time.Time) *pending {
	q := s.pods[podKey{id: id}]
	if key.uid == "" || q == nil {
		return s.pendingFor(key, now)
	}
	delete(s.pods, q.key) // which makes room
	p := s.pendingFor(key, now)
	for _, h := range p.takeOver(q) {
		s.report(h.key, OutcomeAlready, 0, 0)
	}
	return p
}

// dueBy notes that something may have become due earlier.
func (s *Scheduler) dueBy(p *pending) {
	if at := p.due(); !at.IsZero() && (s.soonest.IsZero() || at.Before(s.soonest)) {
		s.soonest = at
	}
}

// pendingFor is what is pending under a key; nil when too much is, and everything is
// looked at instead.
func (s *Scheduler) pendingFor(key podKey, now time.Time) *pending {
	p := s.pods[key]
	switch {
	case p != nil:
	case len(s.pods) < maxPending:
		p = &pending{key: key}
		s.pods[key] = p
	default:
		s.overflow(now)
	}
	return p
}

// overflow gives up following single changes, there being too many: everything is
// looked at instead.
func (s *Scheduler) overflow(now time.Time) {
	s.period.degrade(now, degradedAfterLost)
	s.askAll(now, ReasonLost)
}

// askAll makes a look at everything due at a time; one begun before does not do.
// The reason given first stays: it has waited longest.
func (s *Scheduler) askAll(at time.Time, reason Reason) {
	if s.all.IsZero() {
		s.allReason = reason
	}
	if s.all.IsZero() || at.Before(s.all) {
		s.all = at
	}
	if !at.Before(s.allAsked) {
		s.allAsked, s.lastReason = at, reason
	}
}
