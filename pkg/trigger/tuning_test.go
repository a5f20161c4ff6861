package trigger

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

var settings = [][]SourceName{
	{SourceCgroup},
	{SourceEBPF},
	{SourceCRI},
	{SourceEBPF, SourceCgroup},
	{SourceCgroup, SourceEBPF, SourceCRI},
}

func settingName(sources []SourceName) string {
	if len(sources) == 3 {
		return "all"
	}
	names := make([]string, len(sources))
	for i, s := range sources {
		names[i] = string(s)
	}
	return strings.Join(names, "+")
}

// measure lets pods run for a while and measures after the scheduler has had time
// to learn.
func measure(sim *simulation, pods int, life func(*simulation) time.Duration, warm, until time.Duration) figures {
	for i := range pods {
		sim.at(time.Duration(i)*10*time.Millisecond, func() {
			sim.pod(fmt.Sprintf("pod%d", i), func() time.Duration { return life(sim) })
		})
	}
	sim.run(warm)
	from := len(sim.looks)
	sim.run(until)
	return sim.figures(warm, until, []int{from, len(sim.looks)})
}

func shortLife(s *simulation) time.Duration {
	return s.uniform(200*time.Millisecond, 3*time.Second)
}

func longLife(s *simulation) time.Duration {
	return s.uniform(5*time.Second, 40*time.Second)
}

// TestSimulatedLatency measures how long after a state is visible it is known, and
// for how many looks, with each setting of triggers. Looks are counted for each start
// or exit, and for each change of any kind that was found.
func TestSimulatedLatency(t *testing.T) {
	type bound struct {
		looks              float64 // a start or exit
		start, exit, worst time.Duration
	}
	ms := func(f float64) time.Duration { return time.Duration(f * float64(time.Millisecond)) }
	bounds := map[string]bound{
		"cgroup":      {looks: 3, start: ms(8), exit: ms(2.5), worst: ms(30)},
		"ebpf":        {looks: 2.2, start: ms(3), exit: ms(11), worst: ms(50)},
		"cri":         {looks: 2.2, start: ms(1.5), exit: ms(1.5), worst: ms(3)},
		"ebpf+cgroup": {looks: 3.2, start: ms(3), exit: ms(2.5), worst: ms(15)},
		"all":         {looks: 2.4, start: ms(1.5), exit: ms(1.5), worst: ms(5)},
	}
	t.Logf("%-12s %4s %8s %8s %8s   %-20s   %-20s", "", "", "starts,", "looks", "looks", "start", "exit")
	t.Logf("%-12s %4s %8s %8s %8s   %-20s   %-20s", "triggers", "pods", "exits", "each", "a change", "p50    p90    p99", "p50    p90    p99 ms")
	for _, pods := range []int{10, 200} {
		for _, sources := range settings {
			sim := newSimulation(uint64(pods), SchedulerOptions{Sources: sources})
			life := shortLife
			if pods > 10 {
				life = longLife
			}
			f := measure(sim, pods, life, 20*time.Second, 120*time.Second)
			name := settingName(sources)
			t.Logf("%-12s %4d %8d %8.2f %8.2f   %s   %s", name, pods, f.changes, f.looks, f.looksAll, f.start, f.exit)
			b := bounds[name]
			if f.looks > b.looks || f.looksAll > 2 {
				t.Errorf("%s: %.2f looks a start or exit, %.2f a change", name, f.looks, f.looksAll)
			}
			if f.start.p50 > b.start || f.exit.p50 > b.exit {
				t.Errorf("%s: starts are known after %v, exits after %v", name, f.start.p50, f.exit.p50)
			}
			if worst := max(f.start.p99, f.exit.p99); worst > b.worst {
				t.Errorf("%s: p99 is %v", name, worst)
			}
			if f.changes < 500 {
				t.Errorf("%s: only %d starts and exits", name, f.changes)
			}
			if left := len(sim.sched.pods); left > pods {
				t.Errorf("%s: %d pods are pending", name, left)
			}
		}
	}
}

// TestLearnsSlowerRuntime has the runtime become three times slower, and fast again.
func TestLearnsSlowerRuntime(t *testing.T) {
	sim := newSimulation(3, SchedulerOptions{Sources: []SourceName{SourceEBPF}})
	learned := func() time.Duration {
		return sim.sched.lags[lagKey{SourceEBPF, KindExited, expectExited, false}].first
	}
	measure(sim, 10, shortLife, 60*time.Second, 61*time.Second)
	within := func(what string, median time.Duration) {
		t.Helper()
		t.Logf("%s: first look after %v", what, learned())
		if d := learned(); d < median/2 || d > median*2 {
			t.Errorf("%s: first look after %v, where half of the exits show after %v", what, d, median)
		}
	}
	within("as measured", 27*time.Millisecond)
	sim.slow = 3
	sim.run(71 * time.Second) // some 50 exits
	within("slow", 81*time.Millisecond)
	mark := len(sim.looks)
	sim.run(100 * time.Second)
	if f := sim.figures(71*time.Second, 100*time.Second, []int{mark, len(sim.looks)}); f.looks > 2.3 {
		t.Errorf("%.2f looks a start or exit when slow", f.looks)
	}
	sim.slow = 1
	sim.run(110 * time.Second)
	within("fast again", 27*time.Millisecond)
}

// TestSourceFails has the runtime's events cease, once with notice and once without:
// the kernel's signals, which only backed them, must do their work again.
func TestSourceFails(t *testing.T) {
	for _, notice := range []bool{true, false} {
		sim := newSimulation(4, SchedulerOptions{Sources: []SourceName{SourceEBPF, SourceCRI}})
		measure(sim, 10, shortLife, 29*time.Second, 30*time.Second)
		l := sim.sched.lags[lagKey{SourceEBPF, KindExited, expectExited, false}]
		if !l.backed {
			t.Fatal("the runtime's events do not count")
		}
		backed := max(l.first, l.far)
		sim.sources[SourceCRI] = false
		if notice {
			sim.sched.SourceState(SourceCRI, false, sim.now)
		}
		mark := len(sim.looks)
		sim.run(35 * time.Second)
		if l.backed {
			t.Error("they still count five seconds after the last")
		}
		sim.run(60 * time.Second)
		f := sim.figures(31*time.Second, 60*time.Second, []int{mark, len(sim.looks)})
		t.Logf("notice %v: first look %v after an exit before, %v after; starts %s, exits %s", notice, backed, max(l.first, l.far), f.start, f.exit)
		if f.start.p50 > 4*time.Millisecond || f.exit.p50 > 12*time.Millisecond {
			t.Errorf("starts are known after %v, exits after %v", f.start.p50, f.exit.p50)
		}
		sim.sources[SourceCRI] = true
		if notice {
			sim.sched.SourceState(SourceCRI, true, sim.now)
		}
		sim.run(75 * time.Second)
		if !l.backed {
			t.Error("they do not count again")
		}
	}
}

// TestLateEvents has a runtime whose events come late, and which has who lists wait while
// it changes a state. Looks of one's own then find starts sooner, since how late these
// are varies little; that is found out, and the events are not waited for.
func TestLateEvents(t *testing.T) {
	sim := newSimulation(7, SchedulerOptions{Sources: settings[len(settings)-1]})
	measure(sim, 10, shortLife, 29*time.Second, 30*time.Second)
	l := sim.sched.lags[lagKey{SourceEBPF, KindStarted, expectStarted, false}]
	if !l.backed {
		t.Error("the runtime's events do not count while they come at once")
	}
	sim.late, sim.hold = 1300*time.Microsecond, 1200*time.Microsecond
	sim.run(60 * time.Second)
	if l.backed {
		t.Error("the runtime's events are waited for")
	}
	mark := len(sim.looks)
	sim.run(120 * time.Second)
	f := sim.figures(60*time.Second, 120*time.Second, []int{mark, len(sim.looks)})
	t.Logf("%.2f looks a change, starts %s, exits %s", f.looksAll, f.start, f.exit)
	if f.looksAll > 2 || f.start.p50 > 1500*time.Microsecond {
		t.Errorf("%.2f looks a change, starts %s", f.looksAll, f.start)
	}
}

// TestStorm starts 500 pods at once, whose containers end soon.
func TestStorm(t *testing.T) {
	for _, sources := range settings {
		sim := newSimulation(5, SchedulerOptions{Sources: sources})
		for i := range 500 {
			sim.at(time.Second+sim.uniform(0, 100*time.Millisecond), func() {
				pod := fmt.Sprintf("pod%d", i)
				sim.sandbox(pod, func() { sim.container(pod, pod+"-c", func() time.Duration { return 0 }, func() {}) })
			})
		}
		sim.run(10 * time.Second)
		f := sim.figures(0, 10*time.Second, []int{0, len(sim.looks)})
		name := settingName(sources)
		t.Logf("%-12s %d changes, %d looks, starts %s, exits %s, at most %d pods pending", name, f.changes, len(sim.looks), f.start, f.exit, sim.most)
		if f.changes != 1500 {
			t.Errorf("%s: %d changes known", name, f.changes)
		}
		if len(sim.looks) > 600 {
			t.Errorf("%s: %d looks", name, len(sim.looks))
		}
		if len(sim.sched.pods) > 0 {
			t.Errorf("%s: %d pods left pending", name, len(sim.sched.pods))
		}
	}
}

// TestCgroupV1Alone has no word of starts but that the cgroup was made.
func TestCgroupV1Alone(t *testing.T) {
	sim := newSimulation(6, SchedulerOptions{Sources: []SourceName{SourceCgroup}})
	sim.v1 = true
	f := measure(sim, 10, shortLife, 20*time.Second, 60*time.Second)
	t.Logf("%.2f looks a start or exit, starts %s, exits %s, %d periodic", f.looks, f.start, f.exit, f.periodic)
	if f.looks > 3 || f.start.p50 > 10*time.Millisecond || f.exit.p50 > 3*time.Millisecond {
		t.Errorf("%.2f looks a start or exit, starts %s, exits %s", f.looks, f.start, f.exit)
	}
	if f.periodic > 5 {
		t.Errorf("%d periodic looks in 40 seconds: the period is short", f.periodic)
	}
}
