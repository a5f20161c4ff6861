package trigger

import (
	"cmp"
	"container/heap"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
)

// A simulation plays a runtime with the lags measured on containerd 2.2, the
// kernel's and the runtime's signals, and a scheduler that sees only these, in
// invented time. It is deterministic for a seed.
type simulation struct {
	rng   *rand.Rand
	start time.Time
	now   time.Time
	queue moments
	seq   int

	sched *Scheduler
	truth map[string]item
	known map[string]item
	seen  map[string]bool
	// sources are those whose signals come through.
	sources map[SourceName]bool
	// v1: the cgroups tell nothing of processes.
	v1 bool
	// slow stretches the runtime's lags.
	slow float64
	// late is how long after a state is visible the runtime sends its event at most, and
	// hold for how long before that who lists has to wait for it (as containerd 2.4 does
	// while it writes the state to disk).
	late, hold time.Duration
	turning    map[string]time.Time // by pod, when what is held will be visible

	visible map[announcement]time.Time
	found   []discovery
	looks   []Look
	steps   int
	most    int // pending pods
}

type item struct {
	state event.State
	pod   string
}

// discovery is a change that a look found.
type discovery struct {
	expect expectation
	at     time.Time
	after  time.Duration // since it was visible
}

type moment struct {
	at  time.Time
	seq int
	do  func()
}

type moments []moment

func (m moments) Len() int           { return len(m) }
func (m moments) Less(i, j int) bool { return cmp.Or(m[i].at.Compare(m[j].at), m[i].seq-m[j].seq) < 0 }
func (m moments) Swap(i, j int)      { m[i], m[j] = m[j], m[i] }
func (m *moments) Push(x any)        { *m = append(*m, x.(moment)) }
func (m *moments) Pop() any {
	last := (*m)[len(*m)-1]
	*m = (*m)[:len(*m)-1]
	return last
}

func newSimulation(seed uint64, opts SchedulerOptions) *simulation {
	start := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	s := &simulation{
		rng: rand.New(rand.NewPCG(seed, 1)), start: start, now: start, slow: 1, late: 400 * time.Microsecond,
		truth: make(map[string]item), known: make(map[string]item), seen: make(map[string]bool),
		sources: make(map[SourceName]bool), visible: make(map[announcement]time.Time),
		turning: make(map[string]time.Time),
	}
	s.sched = NewScheduler(opts, s, start)
	for _, name := range opts.Sources {
		s.sources[name] = true
		s.at(0, func() { s.sched.SourceState(name, true, s.now) })
	}
	return s
}

// The simulation is the scheduler's view.

func (s *simulation) State(id string) event.State {
	return cmp.Or(s.known[id].state, event.StateNonExistent)
}
func (s *simulation) Seen(id string) bool    { return s.seen[id] }
func (s *simulation) PodOf(id string) string { return s.known[id].pod }
func (s *simulation) HasPod(uid string) bool {
	for _, it := range s.known {
		if it.pod == uid {
			return true
		}
	}
	return false
}

// at does something after a while.
func (s *simulation) at(after time.Duration, do func()) {
	s.seq++
	heap.Push(&s.queue, moment{s.now.Add(after), s.seq, do})
}

// signal sends a signal after a while, and the time its source takes.
func (s *simulation) signal(after time.Duration, source SourceName, kind Kind, pod, id string) {
	if s.v1 && source == SourceCgroup && (kind == KindStarted || kind == KindExited) {
		return
	}
	sent := s.now.Add(after)
	s.at(after+s.uniform(50*time.Microsecond, 200*time.Microsecond), func() {
		if s.sources[source] {
			s.sched.Signal(Signal{Source: source, Kind: kind, PodUID: pod, ContainerID: id, At: sent}, s.now)
		}
	})
}

// turn makes a state visible after a while, and has the runtime say so.
func (s *simulation) turn(after time.Duration, pod, id string, state event.State) {
	if s.hold > 0 && after > s.hold {
		until := s.now.Add(after)
		s.at(after-s.hold, func() { s.turning[pod] = until })
	}
	s.at(after, func() {
		x, kind := expectListed, KindCreated
		switch state {
		case event.StateRunning:
			x, kind = expectStarted, KindStarted
		case event.StateExited:
			x, kind = expectExited, KindExited
		case event.StateNonExistent:
			x, kind = expectRemoved, KindRemoved
			delete(s.truth, id)
		}
		if x != expectRemoved {
			s.truth[id] = item{state, pod}
		}
		s.visible[announcement{id, x}] = s.now
		s.signal(s.uniform(s.late/2, s.late), SourceCRI, kind, pod, id)
	})
}

func (s *simulation) uniform(from, to time.Duration) time.Duration {
	return from + time.Duration(s.rng.Int64N(int64(to-from)+1))
}

// lag draws from a lognormal distribution, which is what the lags measured look
// like.
func (s *simulation) lag(median, p90 time.Duration) time.Duration {
	sigma := math.Log(float64(p90)/float64(median)) / 1.2816
	return time.Duration(s.slow * float64(median) * math.Exp(sigma*s.rng.NormFloat64()))
}

// sandbox starts a pod and then does the next thing.
func (s *simulation) sandbox(pod string, then func()) {
	id := pod + "-sandbox"
	s.signal(0, SourceCgroup, KindCgroupAdded, pod, id)
	s.signal(time.Millisecond, SourceCgroup, KindStarted, pod, id)
	exec := s.uniform(60*time.Millisecond, 80*time.Millisecond)
	s.signal(exec, SourceEBPF, KindStarted, pod, id)
	ready := exec + s.lag(5*time.Millisecond, 12*time.Millisecond)
	s.turn(ready, pod, id, event.StateRunning)
	s.at(ready+5*time.Millisecond, then)
}

// container lets a container live for a while and go, and does the next thing.
func (s *simulation) container(pod, id string, life func() time.Duration, then func()) {
	s.turn(0, pod, id, event.StateCreated)
	mkdir := s.uniform(3*time.Millisecond, 8*time.Millisecond)
	s.signal(mkdir, SourceCgroup, KindCgroupAdded, pod, id)
	s.signal(mkdir+time.Millisecond, SourceCgroup, KindStarted, pod, id)
	exec := mkdir + s.uniform(30*time.Millisecond, 50*time.Millisecond)
	s.signal(exec, SourceEBPF, KindStarted, pod, id)
	running := exec + s.lag(3*time.Millisecond, 8*time.Millisecond)
	s.turn(running, pod, id, event.StateRunning)
	exit := running + life()
	s.signal(exit, SourceEBPF, KindExited, pod, id)
	s.signal(exit+160*time.Microsecond, SourceCgroup, KindExited, pod, id)
	exited := exit + s.lag(27*time.Millisecond, 50*time.Millisecond)
	s.turn(exited, pod, id, event.StateExited)
	s.signal(max(exit, exited-s.lag(3*time.Millisecond, 5*time.Millisecond)), SourceCgroup, KindCgroupRemoved, pod, id)
	s.turn(exited+s.uniform(time.Second, 2*time.Second), pod, id, event.StateNonExistent)
	s.at(exited+s.uniform(10*time.Millisecond, 100*time.Millisecond), then)
}

// pod runs containers one after another for ever.
func (s *simulation) pod(name string, life func() time.Duration) {
	n := 0
	var next func()
	next = func() {
		n++
		s.container(name, fmt.Sprintf("%s-%d", name, n), life, next)
	}
	s.sandbox(name, next)
}

// run goes on until a time.
func (s *simulation) run(until time.Duration) {
	end := s.start.Add(until)
	for {
		var wake time.Time
		for {
			var looks []Look
			looks, wake = s.sched.Next(s.now)
			if len(looks) == 0 {
				break
			}
			for _, look := range looks {
				s.look(look)
			}
		}
		s.steps++
		s.most = max(s.most, len(s.sched.pods))
		if !wake.After(s.now) {
			panic("the loop would spin")
		}
		if len(s.queue) > 0 && !s.queue[0].at.After(wake) {
			wake = s.queue[0].at
		}
		if wake.After(end) {
			s.now = end
			return
		}
		s.now = wake
		for len(s.queue) > 0 && !s.queue[0].at.After(s.now) {
			heap.Pop(&s.queue).(moment).do()
		}
	}
}

// look lists what is true now, or once what is held may be seen; the result is known a
// millisecond later.
func (s *simulation) look(look Look) {
	s.looks = append(s.looks, look)
	began := s.now
	if until := s.turning[look.PodUID]; until.After(began) {
		s.at(until.Sub(began), func() { s.list(look, began) })
		return
	}
	s.list(look, began)
}

func (s *simulation) list(look Look, began time.Time) {
	shown := make(map[string]item)
	for id, it := range s.truth {
		if look.PodUID == "" || it.pod == look.PodUID {
			shown[id] = it
		}
	}
	took := s.uniform(700*time.Microsecond, 1300*time.Microsecond)
	s.at(took, func() {
		res := Looked{Look: look, At: began, Took: s.now.Sub(began)}
		for id, it := range s.known {
			if _, ok := shown[id]; !ok && (look.PodUID == "" || it.pod == look.PodUID) {
				delete(s.known, id)
				res.Found = append(res.Found, Found{id, event.StateNonExistent})
				s.discover(announcement{id, expectRemoved})
			}
		}
		for id, it := range shown {
			if s.known[id] == it {
				continue
			}
			s.known[id], s.seen[id] = it, true
			res.Found = append(res.Found, Found{id, it.state})
			s.discover(announcement{id, expectListed})
			if it.state != event.StateCreated {
				s.discover(announcement{id, expectStarted})
			}
			if it.state == event.StateExited {
				s.discover(announcement{id, expectExited})
			}
		}
		s.sched.Done(res, s.now)
	})
}

func (s *simulation) discover(a announcement) {
	if at, ok := s.visible[a]; ok {
		delete(s.visible, a)
		s.found = append(s.found, discovery{a.expect, s.now, s.now.Sub(at)})
	}
}

// figures sums up what happened from one time to another.
type figures struct {
	changes       int     // starts and exits
	looks         float64 // early ones, for each start or exit
	looksAll      float64 // and for each change of any kind
	start, exit   percentiles
	all, periodic int
}

type percentiles struct{ p50, p90, p99 time.Duration }

func (s *simulation) figures(from, to time.Duration, marks []int) figures {
	var f figures
	var starts, exits []time.Duration
	for _, d := range s.found {
		if at := d.at.Sub(s.start); at < from || at >= to {
			continue
		}
		switch d.expect {
		case expectStarted:
			starts = append(starts, d.after)
		case expectExited:
			exits = append(exits, d.after)
		}
	}
	early, every := 0, 0
	for _, d := range s.found {
		if at := d.at.Sub(s.start); at >= from && at < to {
			every++
		}
	}
	for _, l := range s.looks[marks[0]:marks[1]] {
		switch {
		case l.Reason == ReasonPeriodic:
			f.periodic++
		case l.PodUID == "":
			f.all++
			fallthrough
		default:
			early++
		}
	}
	f.changes = len(starts) + len(exits)
	f.looks = float64(early) / float64(f.changes)
	f.looksAll = float64(early) / float64(every)
	f.start, f.exit = percentilesOf(starts), percentilesOf(exits)
	return f
}

func percentilesOf(d []time.Duration) percentiles {
	if len(d) == 0 {
		return percentiles{}
	}
	slices.Sort(d)
	at := func(q float64) time.Duration { return d[min(int(q*float64(len(d))), len(d)-1)] }
	return percentiles{at(.5), at(.9), at(.99)}
}

func (p percentiles) String() string {
	ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	return fmt.Sprintf("%6.2f %6.2f %6.2f", ms(p.p50), ms(p.p90), ms(p.p99))
}
