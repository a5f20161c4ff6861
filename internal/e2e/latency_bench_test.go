//go:build linux

package e2e

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/internal/testruntime"
	"github.com/hybrid-pleg/hybrid-pleg/internal/testruntime/runtimetest"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/pleg"
	"golang.org/x/sync/errgroup"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

var transitions = flag.Int("transitions", 100, "containers started and ended by each latency measurement")

// BenchmarkLatency measures, on a real containerd, how long after the runtime's
// own state shows a start or an exit the event reaches a watcher, and how many
// early relists a transition takes. Arms run one after another, on the same
// runtime, so that none slows another down.
//
// When the state turned is taken from containerd's checkpoints, see [checkpoints]. To
// ask for the state all the time would take the processors away from what is measured,
// and would not find out: containerd holds back the answers while it writes a
// checkpoint.
//
// The arm "none" relists every second, as the kubelet does.
func BenchmarkLatency(b *testing.B) {
	rt := runtimetest.Start(b, testruntime.Options{})
	shown := watchCheckpoints(b, rt)
	for _, background := range []int{10, 200} {
		b.Run(fmt.Sprintf("containers=%d", background), func(b *testing.B) { benchmarkLatency(b, rt, shown, background) })
	}
}

func benchmarkLatency(b *testing.B, rt *testruntime.Runtime, shown *checkpoints, background int) {
	defer startBackground(b, rt, background)()
	table := &strings.Builder{}
	w := tabwriter.NewWriter(table, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "triggers\texit p50\tp90\tp99\tstart p50\tp90\tp99\tearly relists/transition\t")
	for _, name := range []string{"none", "cgroup", "ebpf", "cri", "all"} {
		b.Run("triggers="+name, func(b *testing.B) {
			m := measure(b, rt, shown, name)
			fmt.Fprintf(w, "%s\t%s\t%s\t%.2f\t\n", name, m.exit, m.start, m.relists)
			b.ReportMetric(m.exit.at(.5), "exit-p50-ms")
			b.ReportMetric(m.exit.at(.99), "exit-p99-ms")
			b.ReportMetric(m.start.at(.5), "start-p50-ms")
			b.ReportMetric(m.start.at(.99), "start-p99-ms")
			b.ReportMetric(m.relists, "relists/transition")
			b.ReportMetric(0, "ns/op")
		})
	}
	_ = w.Flush()
	startLate, exitLate := eventsLate(b, rt, shown)
	// Not b.Log: what a benchmark with sub-benchmarks logs is not shown.
	fmt.Printf("\n%d containers in the background; milliseconds after the runtime shows the state\n%s"+
		"The runtime makes its own events %.2f ms (exit) and %.2f ms (start) after the state, and\n"+
		"one CRI call takes %.2f ms after another, or %.2f ms when nothing else happens (medians).\n\n",
		background, table, exitLate.at(.5), startLate.at(.5), callTime(b, rt, 0).at(.5), callTime(b, rt, 20*time.Millisecond).at(.5))
}

// startBackground makes containers that do nothing while others are measured.
func startBackground(b *testing.B, rt *testruntime.Runtime, n int) (stop func()) {
	b.Helper()
	const each = 10
	pods := make([]*testruntime.Pod, (n+each-1)/each)
	var group errgroup.Group
	group.SetLimit(4)
	for i := range pods {
		group.Go(func() error {
			p, err := rt.RunPod(b.Context(), testruntime.PodSpec{})
			if err != nil {
				return err
			}
			pods[i] = p
			for j := range each {
				if _, err := p.RunContainer(b.Context(), testruntime.ContainerSpec{Name: fmt.Sprint("c", j)}); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		b.Fatal(err)
	}
	return func() {
		for _, p := range pods {
			if err := p.Remove(b.Context()); err != nil {
				b.Error(err)
			}
		}
	}
}

// measurement is what one arm did.
type measurement struct {
	exit, start sample
	relists     float64
}

func measure(b *testing.B, rt *testruntime.Runtime, shown *checkpoints, name string) measurement {
	opts := pleg.Options{Triggers: triggerChoices()[name], Log: slog.New(slog.DiscardHandler)}
	if name == "none" {
		opts.RelistPeriod = time.Second
	}
	a := startArm(b, rt, name, opts)
	p, err := rt.RunPod(b.Context(), testruntime.PodSpec{})
	if err != nil {
		b.Fatal(err)
	}
	// What the triggers learn about the runtime's lag is part of the arm, not of
	// its first moments.
	const warmUp = 15
	random := rand.New(rand.NewPCG(1, 2))
	var m measurement
	var before counts
	told := 0
	for i := range warmUp + *transitions {
		if i == warmUp {
			quiesce(b, []*arm{a})
			before, told = a.counts(b), len(a.told())
		}
		c := create(b, p, i, time.Duration(50+random.IntN(150))*time.Millisecond)
		shown.of(b, c.ID)
		if err := c.Start(b.Context()); err != nil {
			b.Fatal(err)
		}
		a.await(b, "end of "+c.ID, func(events []event.Event) bool { return find(events, c.ID, event.ContainerDied) >= 0 })
		if i >= warmUp {
			start, exit := shown.await(b, c.ID)
			m.start = append(m.start, a.gotAt(c.ID, event.ContainerStarted).Sub(start))
			m.exit = append(m.exit, a.gotAt(c.ID, event.ContainerDied).Sub(exit))
		}
		if err := c.Remove(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	quiesce(b, []*arm{a})
	if n := len(a.told()) - told; n > 0 {
		m.relists = (a.counts(b).early - before.early) / float64(n)
	}
	if err := p.Remove(b.Context()); err != nil {
		b.Fatal(err)
	}
	return m
}

func create(b *testing.B, p *testruntime.Pod, attempt int, life time.Duration) *testruntime.Container {
	b.Helper()
	c, err := p.CreateContainer(b.Context(), testruntime.ContainerSpec{
		Name: "measured", Attempt: uint32(attempt), Args: []string{"exit", "0", life.String()},
	})
	if err != nil {
		b.Fatal(err)
	}
	return c
}

// eventsLate measures how long after the state has turned the runtime makes its own
// event, as the time stamp in it says.
func eventsLate(b *testing.B, rt *testruntime.Runtime, shown *checkpoints) (start, exit sample) {
	obs, stop := observe(rt)
	defer stop()
	p, err := rt.RunPod(b.Context(), testruntime.PodSpec{})
	if err != nil {
		b.Fatal(err)
	}
	for i := range 30 {
		c := create(b, p, i, 100*time.Millisecond)
		shown.of(b, c.ID)
		if err := c.Start(b.Context()); err != nil {
			b.Fatal(err)
		}
		began, ended := shown.await(b, c.ID)
		start = append(start, obs.at(b, c.ID, runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT).Sub(began))
		exit = append(exit, obs.at(b, c.ID, runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT).Sub(ended))
		// An event has the status of each container of its pod in it: who leaves them
		// there measures how long that takes.
		if err := c.Remove(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	if err := p.Remove(b.Context()); err != nil {
		b.Fatal(err)
	}
	return start, exit
}

// callTime measures what no generator can do without, a call of the runtime: after
// pauses, as most come, or without.
func callTime(b *testing.B, rt *testruntime.Runtime, pause time.Duration) (took sample) {
	for range 100 {
		if pause > 0 {
			<-time.After(pause)
		}
		began := time.Now()
		if _, err := rt.Client().ListContainers(b.Context(), &runtimeapi.ContainerFilter{Id: "none"}); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(began))
	}
	return took
}

// observer follows the runtime's event stream, apart from any generator.
type observer struct {
	mu   sync.Mutex
	made map[string]time.Time
	more chan struct{}
}

func observe(rt *testruntime.Runtime) (o *observer, stop func()) {
	o = &observer{made: make(map[string]time.Time), more: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.Background())
	events := make(chan *runtimeapi.ContainerEventResponse, 1024)
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(events)
		_ = rt.Client().GetContainerEvents(ctx, events, nil)
	})
	wg.Go(func() {
		for e := range events {
			o.mu.Lock()
			o.made[e.ContainerId+e.ContainerEventType.String()] = time.Unix(0, e.CreatedAt)
			close(o.more)
			o.more = make(chan struct{})
			o.mu.Unlock()
		}
	})
	return o, func() { cancel(); wg.Wait() }
}

// at is when the runtime made an event, which is waited for.
func (o *observer) at(b *testing.B, id string, typ runtimeapi.ContainerEventType) time.Time {
	b.Helper()
	timeout := time.After(patience)
	for {
		o.mu.Lock()
		at, more := o.made[id+typ.String()], o.more
		o.mu.Unlock()
		if !at.IsZero() {
			return at
		}
		select {
		case <-more:
		case <-timeout:
			b.Fatalf("the runtime sent no %s of %s", typ, id)
		}
	}
}

// sample is a set of durations.
type sample []time.Duration

// at is a quantile in milliseconds.
func (s sample) at(q float64) float64 {
	if len(s) == 0 {
		return 0
	}
	sorted := slices.Clone(s)
	slices.Sort(sorted)
	return float64(sorted[int(q*float64(len(sorted)-1))]) / float64(time.Millisecond)
}

func (s sample) String() string {
	return fmt.Sprintf("%.2f\t%.2f\t%.2f", s.at(.5), s.at(.9), s.at(.99))
}

func find(events []event.Event, id string, typ event.Type) int {
	return slices.IndexFunc(events, func(e event.Event) bool {
		return e.Type == typ && e.Container != nil && e.Container.ID == id
	})
}

// gotAt is when a watcher got an event.
func (a *arm) gotAt(id string, typ event.Type) time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	if i := find(a.events, id, typ); i >= 0 {
		return a.got[i]
	}
	return time.Time{}
}
