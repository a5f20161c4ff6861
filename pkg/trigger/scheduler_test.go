package trigger

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
)

// random is a view, an observer and a runtime without any sense, to attack the
// scheduler with.
type random struct {
	NopObserver
	rng      *rand.Rand
	outcomes map[SourceName]int
	// aside: the signal being taken is about no container.
	aside bool
}

func (r *random) id() string  { return fmt.Sprintf("c%d", r.rng.IntN(40)) }
func (r *random) pod() string { return fmt.Sprintf("p%d", r.rng.IntN(12)) }
func (r *random) State(string) event.State {
	return []event.State{event.StateCreated, event.StateRunning, event.StateExited, event.StateUnknown, event.StateNonExistent}[r.rng.IntN(5)]
}
func (r *random) Seen(string) bool { return r.rng.IntN(3) > 0 }
func (r *random) PodOf(string) string {
	if r.rng.IntN(2) == 0 {
		return ""
	}
	return r.pod()
}
func (r *random) HasPod(string) bool { return r.rng.IntN(2) == 0 }
func (r *random) Settled(source SourceName, _ Kind, _ Outcome, _ time.Duration, _ int) {
	if !r.aside {
		r.outcomes[source]++
	}
}

// TestRandomHistories checks what must hold whatever happens: the loop around the
// scheduler never spins, looks at all never overlap, those at pods do so by no more
// than is allowed, early looks keep to their rate, and when all is quiet nothing is
// left over and each signal about a container has had its outcome.
func TestRandomHistories(t *testing.T) {
	kinds := []Kind{
		KindCreated, KindStarted, KindExited, KindCgroupAdded, KindCgroupRemoved,
		KindRemoved, KindChanged, KindLost, "nonsense",
	}
	sources := []SourceName{SourceCgroup, SourceEBPF, SourceCRI}
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 7))
		r := &random{rng: rng, outcomes: make(map[SourceName]int)}
		start := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
		now := start
		rate := float64(1 + rng.IntN(50))
		s := NewScheduler(SchedulerOptions{Sources: sources, Rate: rate, Burst: 3, Observer: r}, r, now)
		var flying []Look
		began := make(map[uint64]time.Time)
		early := 0
		drain := func() time.Time {
			for i := 0; ; i++ {
				if i > 20 {
					t.Fatalf("seed %d: it decides on and on", seed)
				}
				looks, wake := s.Next(now)
				if len(looks) == 0 {
					if !wake.After(now) {
						t.Fatalf("seed %d: the loop would spin", seed)
					}
					return wake
				}
				for _, l := range looks {
					flying = append(flying, l)
					began[l.number] = now
					if l.Reason != ReasonPeriodic && l.Reason != ReasonStartup {
						early++
					}
				}
				all, pods := 0, 0
				for _, l := range flying {
					if l.PodUID == "" {
						all++
					} else {
						pods++
					}
				}
				if all > 1 || pods > maxPodFlights {
					t.Fatalf("seed %d: %d looks at all and %d at pods at once", seed, all, pods)
				}
			}
		}
		end := func() {
			i := rng.IntN(len(flying))
			l := flying[i]
			flying = append(flying[:i], flying[i+1:]...)
			res := Looked{Look: l, At: began[l.number], Took: time.Duration(rng.IntN(5)) * time.Millisecond}
			delete(began, l.number)
			switch rng.IntN(6) {
			case 0:
				res.Err = errors.New("failed")
			case 1:
				res.Err, res.Unavailable = errors.New("away"), true
			}
			for range rng.IntN(4) {
				res.Found = append(res.Found, Found{r.id(), r.State("")})
			}
			s.Done(res, now)
		}
		sent := make(map[SourceName]int)
		for range 3000 {
			wake := drain()
			switch n := rng.IntN(12); {
			case n < 5:
				sig := Signal{
					Source: sources[rng.IntN(3)], Kind: kinds[rng.IntN(len(kinds))],
					Foreign: rng.IntN(4) == 0,
					At:      now.Add(time.Duration(rng.IntN(2000)-1500) * time.Millisecond),
				}
				if rng.IntN(4) > 0 {
					sig.PodUID = r.pod()
				}
				if rng.IntN(6) > 0 {
					sig.ContainerID = r.id()
				}
				r.aside = sig.ContainerID == "" || sig.Kind == KindLost
				if !r.aside {
					sent[sig.Source]++
				}
				s.Signal(sig, now)
				r.aside = false
			case n == 5:
				s.SourceState(sources[rng.IntN(3)], rng.IntN(2) == 0, now)
			case n == 6:
				s.Request(r.pod(), rng.IntN(2) == 0, now)
			case n == 7 && rng.IntN(10) == 0:
				s.Request("", false, now)
			case n < 10 && len(flying) > 0:
				end()
			case n == 10:
				now = wake
			default:
				now = now.Add(time.Duration(rng.IntN(20_000_000)))
			}
		}
		if most := 3 + 1 + rate*now.Sub(start).Seconds(); float64(early) > most {
			t.Errorf("seed %d: %d early looks, when %.0f were allowed", seed, early, most)
		}
		for range 2000 {
			wake := drain()
			if len(flying) > 0 {
				l := flying[0]
				flying = flying[1:]
				now = now.Add(time.Millisecond)
				s.Done(Looked{Look: l, At: began[l.number], Took: time.Millisecond}, now)
				continue
			}
			now = wake
		}
		if len(s.pods) > 0 {
			t.Errorf("seed %d: %d pods still pending", seed, len(s.pods))
		}
		if !maps.Equal(r.outcomes, sent) {
			t.Errorf("seed %d: outcomes %v of signals about containers %v", seed, r.outcomes, sent)
		}
	}
}

// nothing is a view without records.
type nothing struct{}

func (nothing) State(string) event.State { return event.StateNonExistent }
func (nothing) Seen(string) bool         { return false }
func (nothing) PodOf(string) string      { return "" }
func (nothing) HasPod(string) bool       { return false }

// started returns a scheduler after the first listing.
func started(opts SchedulerOptions, view View) (*Scheduler, time.Time) {
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	s := NewScheduler(opts, view, now)
	for _, name := range opts.Sources {
		s.SourceState(name, true, now)
	}
	now = now.Add(sourceUpDelay)
	looks, _ := s.Next(now)
	s.Done(Looked{Look: looks[0], At: now}, now)
	return s, now
}

func TestNothingGrowsWithoutBound(t *testing.T) {
	s, now := started(SchedulerOptions{Sources: []SourceName{SourceEBPF}}, nothing{})
	for i := range 2 * maxPending {
		s.Signal(Signal{Source: SourceEBPF, Kind: KindStarted, PodUID: fmt.Sprint("p", i), ContainerID: fmt.Sprint("c", i)}, now)
		s.Signal(Signal{Source: SourceEBPF, Kind: KindExited, PodUID: "p0", ContainerID: fmt.Sprint("d", i)}, now)
		s.Request(fmt.Sprint("r", i), true, now)
		s.suspect([]Found{{fmt.Sprint("e", i), event.StateRunning}}, now)
		s.foreign.add(fmt.Sprint("f", i))
	}
	if len(s.pods) > maxPending {
		t.Errorf("%d pods are pending", len(s.pods))
	}
	if n := len(s.pods[podKey{uid: "p0"}].watches); n > maxWatches {
		t.Errorf("%d watches in one pod", n)
	}
	if n := len(s.period.announced.known); n > rememberAnnounced {
		t.Errorf("%d announcements", n)
	}
	if n := len(s.period.suspects); n > rememberAnnounced {
		t.Errorf("%d suspects", n)
	}
	if n := len(s.foreign.known); n > rememberIDs {
		t.Errorf("%d foreign containers", n)
	}
	looks, _ := s.Next(now)
	if len(looks) == 0 || looks[0].PodUID != "" || looks[0].Reason != ReasonLost {
		t.Errorf("an overflow does not make for a look at everything: %v", looks)
	}
	if got := s.period.current(now); got != time.Second {
		t.Errorf("period %v after an overflow", got)
	}
}

// TestFullIsReported checks that a signal that can't be followed is told of.
func TestFullIsReported(t *testing.T) {
	var told []Outcome
	s, now := started(SchedulerOptions{
		Sources:  []SourceName{SourceEBPF},
		Observer: observeSettled{f: func(o Outcome) { told = append(told, o) }},
	}, nothing{})
	for i := range maxPending {
		s.Request(fmt.Sprint("r", i), false, now)
	}
	for _, kind := range []Kind{KindStarted, KindChanged, KindCgroupAdded} {
		s.Signal(Signal{Source: SourceEBPF, Kind: kind, PodUID: "p", ContainerID: "c"}, now)
	}
	if want := []Outcome{OutcomeOpen, OutcomeAlready, OutcomeOpen}; !slices.Equal(told, want) {
		t.Errorf("outcomes %v, not %v", told, want)
	}
}

type observeSettled struct {
	NopObserver
	f func(Outcome)
}

func (o observeSettled) Settled(_ SourceName, _ Kind, outcome Outcome, _ time.Duration, _ int) {
	o.f(outcome)
}

func TestPeriodWithoutSources(t *testing.T) {
	now := time.Now()
	p := newPeriod(10*time.Second, time.Second, nil)
	p.degrade(now, time.Minute)
	p.found(announcement{"c", expectStarted}, now)
	if n, _ := p.judge(now.Add(time.Hour)); n != 0 || p.current(now) != 10*time.Second {
		t.Errorf("without triggers %d are unannounced, period %v", n, p.current(now))
	}
	if p := newPeriod(time.Second, 10*time.Second, []SourceName{SourceCRI}); p.current(now) != time.Second {
		t.Errorf("degraded to a longer period: %v", p.current(now))
	}
}

func TestBucketIsReadyWhenItSays(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	now := time.Now()
	for range 100_000 {
		b := newBucket(0.1+1000*rng.Float64(), 1+10*rng.Float64(), now)
		b.tokens = rng.Float64()*3 - 2
		if at := b.ready(now); !b.take(at) {
			t.Fatalf("rate %v: no token at the time told", b.rate)
		}
	}
}

func TestBucketWithHardlyAnyRate(t *testing.T) {
	now := time.Now()
	for _, rate := range []float64{1e-3, 1e-10, 1e-15, 1e-300} {
		b := newBucket(rate, 1, now)
		b.take(now)
		if at := b.ready(now); !at.After(now) || at.After(now.Add(readyMost)) {
			t.Errorf("rate %v: ready %v from now", rate, at.Sub(now))
		}
	}
}

func TestRecent(t *testing.T) {
	r := newRecent[int](3)
	for _, k := range []int{1, 2, 3, 1, 4} {
		r.add(k)
	}
	if r.has(1) || !r.has(2) || !r.has(3) || !r.has(4) || r.add(4) || !r.add(1) || r.has(2) {
		t.Errorf("it remembers %v", r.known)
	}
}

func TestStateAfterClockStep(t *testing.T) {
	s, now := started(SchedulerOptions{Sources: []SourceName{SourceEBPF}}, nothing{})
	var told Signal
	s.obs = observeSignal(func(sig Signal) { told = sig })
	s.Signal(Signal{Source: SourceEBPF, Kind: KindStarted, PodUID: "p", ContainerID: "c", At: now.Add(time.Hour)}, now)
	if !told.At.Equal(now) {
		t.Errorf("a signal of the future is taken to be of %v", told.At)
	}
	if _, wake := s.Next(now); wake.Sub(now) > 3*time.Millisecond {
		t.Errorf("it is looked for only after %v", wake.Sub(now))
	}
}

type observeSignal func(Signal)

func (f observeSignal) Signal(sig Signal)                                   { f(sig) }
func (observeSignal) Settled(SourceName, Kind, Outcome, time.Duration, int) {}
func (observeSignal) Missed(string)                                         {}
func (observeSignal) Unannounced(int)                                       {}
func (observeSignal) Period(time.Duration)                                  {}

func BenchmarkSignalAndNext(b *testing.B) {
	for _, pods := range []int{10, 1000, 8000} {
		b.Run(fmt.Sprint("pods=", pods), func(b *testing.B) {
			s, now := started(SchedulerOptions{Sources: []SourceName{SourceEBPF}}, nothing{})
			sigs := make([]Signal, pods)
			for i := range sigs {
				sigs[i] = Signal{Source: SourceEBPF, Kind: KindExited, PodUID: fmt.Sprint("p", i), ContainerID: fmt.Sprint("c", i), At: now}
				s.Signal(sigs[i], now)
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				s.Signal(sigs[i%pods], now)
				s.Next(now)
			}
		})
	}
}

// BenchmarkBurst hands over the signals of a burst as the loop does: all, then one
// decision.
func BenchmarkBurst(b *testing.B) {
	const pods, signals = 500, 16384
	sigs := make([]Signal, signals)
	start := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range sigs {
		sigs[i] = Signal{
			Source: SourceEBPF, Kind: []Kind{KindStarted, KindExited}[i&1],
			PodUID: fmt.Sprint("p", i%pods), ContainerID: fmt.Sprint("c", i/8), At: start,
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		s, now := started(SchedulerOptions{Sources: []SourceName{SourceEBPF}}, nothing{})
		for _, sig := range sigs {
			s.Signal(sig, now)
		}
		s.Next(now)
	}
}

// TestCharge has looks take their time, one after another and at the same time.
func TestCharge(t *testing.T) {
	now := time.Now()
	b := newBucket(100, 100, now)
	charge := func(what string, begun, took time.Duration, want float64) {
		t.Helper()
		before := b.tokens
		b.charge(now.Add(begun), took)
		if paid := before - b.tokens; math.Abs(paid-want) > 1e-6 {
			t.Errorf("%s: it pays %v tokens, want %v", what, paid, want)
		}
	}
	charge("short", 0, tokenWorth, 0)
	charge("long", 10*tokenWorth, 11*tokenWorth, 10)
	charge("beside it", 12*tokenWorth, 4*tokenWorth, 0)
	charge("ends after it", 12*tokenWorth, 12*tokenWorth, 2)
	charge("much later", time.Minute, 3*tokenWorth, 2)
	charge("very long", 2*time.Minute, 10*time.Second, 86+b.rate/2)
	charge("in debt", 3*time.Minute, 10*time.Second, 0)
	if ready := b.ready(now).Sub(now); ready < 500*time.Millisecond || ready > 520*time.Millisecond {
		t.Errorf("it is out of debt after %s", ready)
	}
}
