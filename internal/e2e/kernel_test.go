//go:build linux

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/internal/testruntime"
	"github.com/hybrid-pleg/hybrid-pleg/internal/testruntime/runtimetest"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/pleg"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/trigger"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/trigger/cgroup"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/trigger/ebpf"
)

// The lines "matrix: …" in this file's tests go into the table of docs/kernels.md, by
// internal/kerneltest, which runs them on other kernels.

// emulatedEnv says that the machine is an emulated one, which is many times as slow.
const emulatedEnv = "HYBRID_PLEG_TEST_EMULATED"

// TestKernel is what depends on the kernel most: each of its sources alone, and that a storm of
// execs makes none of them signal.
func TestKernel(t *testing.T) {
	rt := runtimetest.Start(t, testruntime.Options{})
	for _, source := range []trigger.Source{ebpf.New(ebpf.Options{}), cgroup.New(cgroup.Options{})} {
		t.Run(string(source.Name()), func(t *testing.T) { testAlone(t, rt, &tapped{Source: source}) })
	}
	t.Run("storm", func(t *testing.T) { testStorm(t, rt) })
}

// testAlone leaves everything to one source: without the runtime's events, and with an hour between
// relists, what is told was found by its signals.
func testAlone(t *testing.T, rt *testruntime.Runtime, source *tapped) {
	name := source.Name()
	emulated := os.Getenv(emulatedEnv) != ""
	period := time.Hour
	if emulated {
		// The runtime may take longer to show an end than the scheduler looks for it.
		period = 10 * time.Second
	}
	a := startArm(t, rt, string(name), pleg.Options{
		Triggers: []trigger.SourceName{name}, Sources: []trigger.Source{source}, RelistPeriod: period, RelistPeriodDegraded: period,
	})
	s := &stage{TB: t, ctx: t.Context(), rt: rt, arms: []*arm{a}}
	p := s.pod(testruntime.PodSpec{Name: "alone-" + string(name)})
	leader := s.container(p, "leader", 0, "leader-exit", "1h", "0")
	s.seen(leader, event.ContainerStarted)
	pid := s.leaderEnds(leader)

	// Signals keep their order, so that one of the leader thread would have come by the
	// time another container's end is told.
	c := s.container(p, "main", 0, "exit", "3", "300ms")
	s.seen(c, event.ContainerStarted)
	s.seen(c, event.ContainerDied)
	s.notSeen(leader, event.ContainerDied)
	if kinds := source.kinds(leader.ID); ends(kinds) {
		t.Errorf("the end of a leader thread: signals %v", kinds)
	}

	s.must(syscall.Kill(pid, syscall.SIGKILL))
	s.seen(leader, event.ContainerDied)
	s.must(p.Remove(s.ctx))
	a.g.RequestRelist(p.UID) // the probe tells no removals
	want := wantPod(p, wantContainer(c, 3), wantContainer(leader, 137))
	a.await(t, "removal", want.removed)
	want.check(t, a.name, a.ofPod(p.UID))
	late := 0
	for _, e := range a.ofPod(p.UID) {
		if e.Type != event.ContainerStarted && e.Type != event.ContainerDied {
			continue
		}
		if e.Detection.FoundBy == event.FoundEarly && e.Detection.Trigger == string(name) && !e.Inferred {
			continue
		}
		if late++; !emulated {
			t.Errorf("not found by %s: %s", name, lines([]event.Event{e}))
		}
	}
	exits := 0
	for _, id := range []string{c.ID, leader.ID} {
		kinds := source.kinds(id)
		if !slices.Contains(kinds, trigger.KindStarted) && !slices.Contains(kinds, trigger.KindCgroupAdded) || !ends(kinds) {
			t.Errorf("signals of a container that started and ended: %v", kinds)
		}
		if slices.Contains(kinds, trigger.KindExited) {
			exits++
		}
	}
	if n := a.counts(t).lost; n != 0 {
		t.Errorf("signals were lost %v times", n)
	}
	if t.Failed() {
		return
	}
	how := "works"
	if exits < 2 {
		how = "works; an end is seen only when the container's cgroup is removed"
	}
	if late > 0 {
		how += fmt.Sprintf("; %d of 4 starts and ends were shown by the runtime only after they were looked for", late)
	}
	t.Logf("matrix: %s: %s", name, how)
}

// ends reports whether one of the kinds tells a container's end.
func ends(kinds []trigger.Kind) bool {
	return slices.Contains(kinds, trigger.KindExited) || slices.Contains(kinds, trigger.KindCgroupRemoved)
}

// testStorm has a container execute programs as fast as it can, which must
// not make anyone look.
func testStorm(t *testing.T, rt *testruntime.Runtime) {
	s := &stage{TB: t, ctx: t.Context(), rt: rt}
	emulated := os.Getenv(emulatedEnv) != ""
	for name, triggers := range triggerChoices() {
		if len(triggers) > 0 && (name == "all" || !emulated) { // all, since those who look cost the machine much
			s.arms = append(s.arms, startArm(t, rt, name, pleg.Options{Triggers: triggers, RelistPeriod: time.Hour, RelistPeriodDegraded: time.Hour}))
		}
	}
	p := s.pod(testruntime.PodSpec{Name: "storm"})
	c := s.container(p, "main", 0, "sleep")
	s.must(c.Ready(s.ctx))
	if emulated {
		// The runtime may take longer to show a start than the scheduler looks for it.
		for _, a := range s.arms {
			have := a.counts(t).relists
			a.g.RequestRelist(p.UID)
			waitFor(t, "a relist of "+a.name, func() error {
				if a.counts(t).relists == have {
					return errors.New("none yet")
				}
				return nil
			})
		}
	}
	s.seen(c, event.ContainerStarted)
	quiesce(t, s.arms)

	before := make(map[string]counts)
	for _, a := range s.arms {
		before[a.name] = a.counts(t)
	}
	// The storm is an exec itself, as kubectl exec would be. Ten thousand a second,
	// if the machine can.
	last := "8s"
	if emulated {
		last = "4s"
	}
	out, err := c.Exec(s.ctx, testruntime.Program, "forkstorm", "10000", last)
	s.must(err)
	t.Logf("the storm: %s", strings.TrimSpace(out))
	for _, a := range s.arms {
		after := a.counts(t)
		if n := after.relists - before[a.name].relists; n != 0 {
			t.Errorf("%s: %v relists during the storm", a.name, n)
		}
		if n := after.lost - before[a.name].lost; n != 0 {
			t.Errorf("%s: signals were lost %v times", a.name, n)
		}
	}
	// How many execs a machine manages is not for a test to say; that they were
	// many is.
	least := 10_000
	if emulated {
		least = 500
	}
	if n := firstNumber(out); n < least {
		t.Errorf("the storm was none: %s", out)
	}
	if !t.Failed() {
		t.Logf("matrix: storm: %d execs: no relist, nothing lost", firstNumber(out))
	}
	s.must(p.Remove(s.ctx))
}

func firstNumber(s string) int {
	for _, word := range strings.FieldsFunc(s, func(r rune) bool { return r < '0' || r > '9' }) {
		if n, err := strconv.Atoi(word); err == nil {
			return n
		}
	}
	return 0
}

// tapped is a source whose signals are kept.
type tapped struct {
	trigger.Source

	mu      sync.Mutex
	signals []trigger.Signal
}

func (s *tapped) Run(ctx context.Context, sink trigger.Sink) error {
	return s.Source.Run(ctx, tap{sink, s})
}

// kinds are those of the signals of a container so far.
func (s *tapped) kinds(id string) (kinds []trigger.Kind) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, signal := range s.signals {
		if signal.ContainerID == id {
			kinds = append(kinds, signal.Kind)
		}
	}
	return kinds
}

type tap struct {
	trigger.Sink
	to *tapped
}

func (t tap) Signal(signal trigger.Signal) {
	t.to.mu.Lock()
	t.to.signals = append(t.to.signals, signal)
	t.to.mu.Unlock()
	t.Sink.Signal(signal)
}

// leaderEnds waits until the leader thread of a container's process has ended, and the process lives;
// it returns its pid.
func (s *stage) leaderEnds(c *testruntime.Container) int {
	s.Helper()
	pid, err := c.HostPid(s.ctx)
	s.must(err)
	waitFor(s, "the leader thread's end", func() error {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			s.Fatalf("the process ended with its leader thread: %v", err)
		}
		if !strings.Contains(string(stat), ") Z ") {
			return fmt.Errorf("it is not a zombie: %s", stat)
		}
		return nil
	})
	return pid
}
