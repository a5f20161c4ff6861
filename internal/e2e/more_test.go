//go:build linux

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/internal/testruntime"
	"github.com/hybrid-pleg/hybrid-pleg/internal/testruntime/runtimetest"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/pleg"
	"go.uber.org/goleak"
)

// TestContainersFromBefore starts the generators when pods run already: each
// tells of them as found at startup, and its triggers know them, so that their
// end is found early.
func TestContainersFromBefore(t *testing.T) {
	rt := runtimetest.Start(t, testruntime.Options{})
	s := &stage{TB: t, ctx: t.Context(), rt: rt}
	p := s.pod(testruntime.PodSpec{Name: "before"})
	live := s.container(p, "live", 0, "sleep")
	dead := s.container(p, "dead", 0, "exit", "7")
	s.exited(dead)
	s.must(live.Ready(s.ctx))
	for name, triggers := range triggerChoices() {
		s.arms = append(s.arms, startArm(t, rt, name, pleg.Options{Triggers: triggers, RelistPeriod: time.Second}))
	}
	s.seen(live, event.ContainerStarted)
	s.seen(dead, event.ContainerDied)
	for _, a := range s.arms {
		for _, e := range a.told() {
			if e.Detection.FoundBy != event.FoundStartup {
				t.Errorf("%s: found %s, not at startup: %s", a.name, e.Detection.FoundBy, lines([]event.Event{e}))
			}
			if isDead := e.Container != nil && e.Container.ID == dead.ID; e.Inferred != (isDead && e.Type == event.ContainerStarted) {
				t.Errorf("%s: inferred: %s", a.name, lines([]event.Event{e}))
			}
		}
	}
	s.must(live.Stop(s.ctx, 10*time.Second))
	s.seen(live, event.ContainerDied)
	s.must(p.Remove(s.ctx))
	want := wantPod(p, wantContainer(live, 143), wantContainer(dead, 7))
	for _, a := range s.arms {
		a.await(t, "removal", want.removed)
		want.check(t, a.name, a.ofPod(p.UID))
	}
}

// TestRuntimeRestart kills the runtime under its containers and starts it again:
// who lives on is not told as dead, and who died meanwhile is, once.
func TestRuntimeRestart(t *testing.T) {
	rt := runtimetest.Start(t, testruntime.Options{})
	s := &stage{TB: t, ctx: t.Context(), rt: rt}
	for name, triggers := range triggerChoices() {
		s.arms = append(s.arms, startArm(t, rt, name, pleg.Options{Triggers: triggers, RelistPeriod: time.Second}))
	}
	p := s.pod(testruntime.PodSpec{Name: "restart"})
	live := s.container(p, "live", 0, "sleep")
	dies := s.container(p, "dies", 0, "ignore-term")
	s.seen(live, event.ContainerStarted)
	s.seen(dies, event.ContainerStarted)
	s.must(live.Ready(s.ctx))
	pid, err := dies.HostPid(s.ctx)
	s.must(err)

	rt.Kill()
	for _, a := range s.arms {
		waitFor(t, "a failed relist of "+a.name, func() error {
			if n := a.counts(t).failed; n == 0 {
				return fmt.Errorf("none yet")
			}
			return nil
		})
	}
	s.must(syscall.Kill(pid, syscall.SIGKILL))
	s.must(rt.Restart(s.ctx))
	s.seen(dies, event.ContainerDied)
	s.notSeen(live, event.ContainerDied)

	s.must(live.Stop(s.ctx, 10*time.Second))
	s.seen(live, event.ContainerDied)
	s.must(p.Remove(s.ctx))
	want := wantPod(p, wantContainer(live, 143), wantContainer(dies, anyExit))
	for _, a := range s.arms {
		a.await(t, "removal", want.removed)
		want.check(t, a.name, a.ofPod(p.UID))
	}
}

// counts are an arm's counters that a test looks at.
type counts struct{ relists, early, failed, lost float64 }

func (a *arm) counts(t testing.TB) counts {
	t.Helper()
	families, err := a.reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var c counts
	for _, f := range families {
		for _, m := range f.GetMetric() {
			label := make(map[string]string)
			for _, l := range m.GetLabel() {
				label[l.GetName()] = l.GetValue()
			}
			switch f.GetName() {
			case "hybrid_pleg_relists_total":
				c.relists += m.GetCounter().GetValue()
				if label["result"] != "ok" {
					c.failed += m.GetCounter().GetValue()
				}
				if label["reason"] == "signal" {
					c.early += m.GetCounter().GetValue()
				}
			case "hybrid_pleg_signals_total":
				if label["kind"] == "lost" {
					c.lost += m.GetCounter().GetValue()
				}
			}
		}
	}
	return c
}

// quiesce waits until no arm relists any more: what was announced is settled.
func quiesce(t testing.TB, arms []*arm) {
	t.Helper()
	type sample struct {
		relists float64
		since   time.Time
	}
	last := make(map[*arm]sample)
	waitFor(t, "quiet", func() error {
		for _, a := range arms {
			n := a.counts(t).early
			if have, ok := last[a]; !ok || have.relists != n {
				last[a] = sample{n, time.Now()}
			}
			if quiet := time.Since(last[a].since); quiet < 2*time.Second {
				return fmt.Errorf("%s has relisted %s ago", a.name, quiet)
			}
		}
		return nil
	})
}

// TestNothingIsLeft runs a generator with every trigger over many containers and
// counts what remains of it: watches when the containers have gone, descriptors
// and goroutines when it has ended. That 1,000 containers leave no watch either is
// tested beside the watches (pkg/trigger/cgroup), with cgroups and without a
// runtime, which would take minutes.
func TestNothingIsLeft(t *testing.T) {
	rt := runtimetest.Start(t, testruntime.Options{})
	ignore := goleak.IgnoreCurrent()
	before := descriptors(t)
	t.Run("generate", func(t *testing.T) {
		a := startArm(t, rt, "all", pleg.Options{})
		s := &stage{TB: t, ctx: t.Context(), rt: rt, arms: []*arm{a}}
		// One pod before counting: the runtime's own cgroups come with it, and stay.
		first := s.pod(testruntime.PodSpec{})
		s.must(first.Remove(s.ctx))
		a.await(t, "removal", podWant{uid: first.UID, sandboxes: 1}.removed)
		watches := inotifyWatches(t)
		for range 3 {
			p := s.pod(testruntime.PodSpec{})
			want := wantPod(p)
			for i := range 10 {
				c := s.container(p, fmt.Sprintf("c%d", i), 0, "exit", "0")
				want.containers = append(want.containers, wantContainer(c, 0))
			}
			s.seen(&testruntime.Container{ID: want.containers[9].id, Name: "c9"}, event.ContainerDied)
			s.must(p.Remove(s.ctx))
			a.await(t, "removal", want.removed)
		}
		waitFor(t, "the watches to be given back", func() error {
			if n := inotifyWatches(t); n > watches {
				return fmt.Errorf("there are %d, and were %d", n, watches)
			}
			return nil
		})
	})
	goleak.VerifyNone(t, ignore)
	if after := descriptors(t); after != before {
		t.Errorf("%d descriptors were open before and %d after", before, after)
	}
}

// inotifyWatches counts the inotify watches of this process.
func inotifyWatches(t testing.TB) int {
	t.Helper()
	files, err := filepath.Glob("/proc/self/fdinfo/*")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			continue // it has been closed
		}
		n += strings.Count(string(data), "inotify wd:")
	}
	return n
}

func descriptors(t testing.TB) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}
