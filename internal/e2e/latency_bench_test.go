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
	"testing"
	"text/tabwriter"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/internal/testruntime"
	"github.com/hybrid-pleg/hybrid-pleg/internal/testruntime/runtimetest"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/pleg"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

var transitions = flag.Int("transitions", 100, "containers started and ended by each latency measurement")

// BenchmarkLatency measures, on a real containerd, how long after the runtime's
// own state shows a start or an exit the event reaches a watcher, and how many
// early relists a transition takes. Arms run one after another, on the same
// runtime, so that none slows another down.
//
// When the state turned is found out by asking for the container's status again
// and again from just before it can turn: the moment is known to lie between the
// last answer that did not show it and the first that did, and the middle is
// taken. The arm "none" relists every second, as the kubelet does.
func BenchmarkLatency(b *testing.B) {
	rt := runtimetest.Start(b, testruntime.Options{})
	for _, background := range []int{10, 200} {
		table := &strings.Builder{}
		w := tabwriter.NewWriter(table, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintln(w, "triggers\texit p50\tp90\tp99\tstart p50\tp90\tp99\tearly relists/transition\t")
		stop := startBackground(b, rt, background)
		for _, name := range []string{"none", "cgroup", "ebpf", "cri", "all"} {
			b.Run(fmt.Sprintf("containers=%d/triggers=%s", background, name), func(b *testing.B) {
				m := measure(b, rt, name)
				fmt.Fprintf(w, "%s\t%s\t%s\t%.2f\t\n", name, m.exit, m.start, m.relists)
				b.ReportMetric(m.exit.at(.5), "exit-p50-ms")
				b.ReportMetric(m.exit.at(.99), "exit-p99-ms")
				b.ReportMetric(m.start.at(.5), "start-p50-ms")
				b.ReportMetric(m.start.at(.99), "start-p99-ms")
				b.ReportMetric(m.relists, "relists/transition")
				b.ReportMetric(0, "ns/op")
				b.Logf("where the state turned is known to ±%.2f ms (median)", m.blur.at(.5))
			})
		}
		stop()
		_ = w.Flush()
		b.Logf("%d containers in the background; milliseconds after the runtime shows the state:\n%s", background, table)
	}
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
	exit, start, blur sample
	relists           float64
}

func measure(b *testing.B, rt *testruntime.Runtime, name string) measurement {
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
	const warmUp = 10
	random := rand.New(rand.NewPCG(1, 2))
	var m measurement
	var before counts
	told := 0
	for i := range warmUp + *transitions {
		if i == warmUp {
			quiesce(b, []*arm{a})
			before, told = a.counts(b), len(a.told())
		}
		life := time.Duration(50+random.IntN(150)) * time.Millisecond
		started, ended, id := playOne(b, rt, p, i, life)
		a.await(b, "end of "+id, func(events []event.Event) bool { return find(events, id, event.ContainerDied) >= 0 })
		if i < warmUp {
			continue
		}
		m.start = append(m.start, a.gotAt(id, event.ContainerStarted).Sub(started.at()))
		m.exit = append(m.exit, a.gotAt(id, event.ContainerDied).Sub(ended.at()))
		m.blur = append(m.blur, started.blur(), ended.blur())
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

// playOne runs a container to its end and removes it, and says when its states
// turned.
func playOne(b *testing.B, rt *testruntime.Runtime, p *testruntime.Pod, attempt int, life time.Duration) (started, ended turn, id string) {
	b.Helper()
	ctx := b.Context()
	c, err := p.CreateContainer(ctx, testruntime.ContainerSpec{
		Name: "measured", Attempt: uint32(attempt), Args: []string{"exit", "0", life.String()},
	})
	if err != nil {
		b.Fatal(err)
	}
	var group errgroup.Group
	group.Go(func() (err error) {
		started, err = watchState(ctx, rt, c.ID, runtimeapi.ContainerState_CONTAINER_RUNNING)
		return err
	})
	if err := c.Start(ctx); err != nil {
		b.Fatal(err)
	}
	if err := group.Wait(); err != nil {
		b.Fatal(err)
	}
	// Asking for the state of a container that merely runs would only take
	// processor time away from everybody.
	if pid, err := c.HostPid(ctx); err == nil {
		waitExit(b, pid)
	}
	if ended, err = watchState(ctx, rt, c.ID, runtimeapi.ContainerState_CONTAINER_EXITED); err != nil {
		b.Fatal(err)
	}
	if err := c.Remove(ctx); err != nil {
		b.Fatal(err)
	}
	return started, ended, c.ID
}

// turn is when a state turned: after the last answer without it was asked for, and
// before the first with it came.
type turn struct{ after, before time.Time }

func (t turn) at() time.Time       { return t.after.Add(t.blur()) }
func (t turn) blur() time.Duration { return t.before.Sub(t.after) / 2 }

// watchState asks for a container's state until it shows want.
func watchState(ctx context.Context, rt *testruntime.Runtime, id string, want runtimeapi.ContainerState) (turn, error) {
	tick := time.NewTicker(250 * time.Microsecond)
	defer tick.Stop()
	var t turn
	for {
		asked := time.Now()
		resp, err := rt.Client().ContainerStatus(ctx, id, false)
		if err != nil {
			return t, err
		}
		if resp.GetStatus().GetState() >= want {
			if t.after.IsZero() {
				t.after = asked
			}
			t.before = time.Now()
			return t, nil
		}
		t.after = asked
		select {
		case <-tick.C:
		case <-ctx.Done():
			return t, ctx.Err()
		}
	}
}

// waitExit waits until a process has ended.
func waitExit(b *testing.B, pid int) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return // it has ended already
	}
	defer unix.Close(fd)
	for {
		_, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(patience.Milliseconds()))
		if err == nil {
			return
		}
		if err != unix.EINTR {
			b.Fatal(err)
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
