package relist

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func TestDetails(t *testing.T) {
	onBench(t, Options{}, func(b *bench) {
		b.pod("p")
		b.set("p", "c", isRunning)
		b.relist("")
		b.want("p SandboxStarted sandbox-p non-existent -> running",
			"p ContainerStarted c (app/0) non-existent -> running")

		b.set("p", "c", isExited)
		b.relist("p")
		got := b.told[0].Change
		b.want("p ContainerDied c (app/0) running -> exited code=3")
		if got.Status.Reason != "Error" || !got.Status.StartedAt.Equal(time.Unix(0, 100)) || !got.Status.FinishedAt.Equal(time.Unix(0, 200)) {
			b.Errorf("status %+v", got.Status)
		}
	})
}

// A container that has ended when its start's details are read: the start says
// nothing of the end.
func TestStartWithoutEnd(t *testing.T) {
	onBench(t, Options{}, func(b *bench) {
		b.pod("p")
		b.set("p", "c", isRunning)
		b.onStatus = func(context.Context, string) error { b.set("p", "c", isExited); return nil }
		b.relist("")
		got := b.told[1].Change
		b.want("p SandboxStarted sandbox-p non-existent -> running",
			"p ContainerStarted c (app/0) non-existent -> running")
		if got.Status == nil || got.Status.StartedAt.IsZero() || !got.Status.FinishedAt.IsZero() || got.Status.Reason != "" {
			b.Errorf("status %+v", got.Status)
		}
	})
}

func TestInferredStart(t *testing.T) {
	onBench(t, Options{}, func(b *bench) {
		b.pod("p")
		b.set("p", "c", isExited)
		b.set("p", "failed", isCreated)
		b.never = map[string]bool{"failed": true}
		b.relist("")
		b.want("p SandboxStarted sandbox-p non-existent -> running",
			"p ContainerStarted c (app/0) non-existent -> running inferred",
			"p ContainerDied c (app/0) running -> exited code=3",
			"p ContainerCreated failed (app/0) non-existent -> created")
		// The runtime failed to start it, and calls it exited. Told as any other: a
		// Died is never told without a Started.
		b.set("p", "failed", isExited)
		b.relist("p")
		b.want("p ContainerStarted failed (app/0) created -> running inferred",
			"p ContainerDied failed (app/0) running -> exited code=3")
	})
}

func TestHangingStatus(t *testing.T) {
	onBench(t, Options{StatusDeadline: 500 * time.Millisecond}, func(b *bench) {
		b.pods(3)
		for i := range 3 {
			b.set(fmt.Sprintf("p%d", i), fmt.Sprintf("c%d", i), isRunning)
		}
		b.relist("")
		b.take()
		release := b.hang("c1")
		for i := range 3 {
			b.set(fmt.Sprintf("p%d", i), fmt.Sprintf("c%d", i), isExited)
		}
		if res := b.engine.Relist(b.Context(), Request{Periodic: true}); res.Err != nil {
			b.Fatal(res.Err)
		}
		synctest.Wait()
		got := b.take()
		slices.Sort(got)
		if want := []string{
			"p0 ContainerDied c0 (app/0) running -> exited code=3",
			"p2 ContainerDied c2 (app/0) running -> exited code=3",
		}; !slices.Equal(got, want) {
			b.Errorf("told without delay: %q", got)
		}
		b.pass(499 * time.Millisecond)
		b.want()
		b.pass(time.Millisecond)
		b.want("p1 ContainerDied c1 (app/0) running -> exited status=late")
		b.pass(time.Minute)
		b.want()
		release()
		synctest.Wait()
		if got := b.told[0].Detection.FoundBy; got != event.FoundPeriodic {
			b.Errorf("late details are found %s, their event was found periodically", got)
		}
		b.want("p1 PodSync c1 (app/0) code=3")
	})
}

// A batch waits for its details; those after it wait for it, however fast theirs
// are, and together for theirs.
func TestOrderWithinPod(t *testing.T) {
	onBench(t, Options{StatusDeadline: 500 * time.Millisecond}, func(b *bench) {
		b.pod("p")
		b.hang("slow")
		b.set("p", "slow", isRunning)
		b.relist("")
		for i := range 20 {
			id := fmt.Sprintf("c%02d", i)
			b.set("p", id, isRunning)
			b.relist("p")
			b.set("p", id, isExited)
			b.relist("p")
		}
		b.want()
		b.pass(500 * time.Millisecond)
		var want []string
		want = append(want, "p SandboxStarted sandbox-p non-existent -> running",
			"p ContainerStarted slow (app/0) non-existent -> running status=late")
		for i := range 20 {
			want = append(want, fmt.Sprintf("p ContainerStarted c%02d (app/0) non-existent -> running", i),
				fmt.Sprintf("p ContainerDied c%02d (app/0) running -> exited code=3", i))
		}
		b.want(want...)
	})
}

// A container that flaps while its status hangs does not pile up reads, and its
// events are late by twice the deadline at most.
func TestFlapping(t *testing.T) {
	onBench(t, Options{StatusDeadline: 500 * time.Millisecond}, func(b *bench) {
		b.pod("p")
		b.hang("c")
		b.set("p", "c", isCreated)
		b.relist("")
		states := []runtimeapi.ContainerState{isRunning, isExited}
		for i := range 600 { // a minute
			b.set("p", "c", states[i%2])
			b.relist("p")
			b.pass(100 * time.Millisecond)
		}
		if b.reading > 2 {
			b.Errorf("%d reads of one container's status at once", b.reading)
		}
		b.pass(time.Second)
		if got := len(b.take()); got != 602 {
			b.Errorf("%d changes told, want 602", got)
		}
		if n := len(b.engine.queues); n != 0 {
			b.Errorf("%d queues left", n)
		}
	})
}

func TestFailingStatus(t *testing.T) {
	onBench(t, Options{}, func(b *bench) {
		b.pod("p")
		var failing atomic.Bool
		failing.Store(true)
		b.onStatus = func(context.Context, string) error {
			if failing.Load() {
				return errors.New("try again")
			}
			return nil
		}
		b.set("p", "c", isExited)
		b.relist("")
		b.want("p SandboxStarted sandbox-p non-existent -> running",
			"p ContainerStarted c (app/0) non-existent -> running inferred status=failed",
			"p ContainerDied c (app/0) running -> exited status=failed")
		b.pass(2 * time.Second)
		failing.Store(false)
		b.pass(2 * time.Second)
		b.want("p PodSync c (app/0) code=3")
	})
}

// A status that can never be read is given up, and not read for a container that
// is gone.
func TestStatusGivenUp(t *testing.T) {
	onBench(t, Options{}, func(b *bench) {
		b.pod("p")
		b.onStatus = func(context.Context, string) error { return errors.New("never") }
		b.set("p", "c", isRunning)
		b.set("p", "d", isRunning)
		b.relist("")
		b.pass(2 * time.Second)
		b.drop("d")
		b.relist("")
		b.take()
		b.pass(time.Hour)
		b.want()
		if b.readsOf["c"] != statusRetries+1 || b.readsOf["d"] > 3 {
			b.Errorf("reads: %v", b.readsOf)
		}
	})
}

func TestGoneBeforeStatus(t *testing.T) {
	onBench(t, Options{}, func(b *bench) {
		b.pod("p")
		b.set("p", "c", isRunning)
		b.relist("")
		b.take()
		b.onStatus = func(_ context.Context, id string) error { b.drop(id); return nil }
		b.set("p", "c", isExited)
		b.relist("p")
		b.want("p ContainerDied c (app/0) running -> exited status=gone")
		b.relist("p")
		b.want("p ContainerRemoved c (app/0) exited -> non-existent")
		// Gone when it was looked at: nothing is asked.
		b.set("p", "d", isRunning)
		b.onStatus = nil
		b.relist("p")
		b.take()
		reads := b.reads
		b.drop("d")
		b.relist("p")
		b.want("p ContainerDied d (app/0) running -> exited status=gone",
			"p ContainerRemoved d (app/0) exited -> non-existent")
		if b.reads != reads {
			b.Errorf("the status of a container that is gone was read")
		}
	})
}

// A node whose agent restarts with 1,000 exited containers: no flood, no delay
// beyond the deadline, nothing lost.
func TestManyExited(t *testing.T) {
	onBench(t, Options{}, func(b *bench) {
		b.pods(100)
		for i := range 1000 {
			b.set(fmt.Sprintf("p%d", i%100), fmt.Sprintf("c%d", i), isExited)
		}
		b.onStatus = func(context.Context, string) error { time.Sleep(5 * time.Millisecond); return nil }
		res := b.engine.Relist(b.Context(), Request{Periodic: true})
		if res.Err != nil || time.Since(b.start) != 0 {
			b.Errorf("the relist took %s, err %v", time.Since(b.start), res.Err)
		}
		b.pass(500 * time.Millisecond)
		if b.most > statusSlots {
			b.Errorf("%d status reads at once", b.most)
		}
		withCode := 0
		for _, c := range b.told {
			if c.Status != nil && c.Status.ExitCode != nil {
				withCode++
			}
			if c.Detection.FoundBy != event.FoundStartup {
				b.Fatalf("found by %q", c.Detection.FoundBy)
			}
		}
		if len(b.told) != 100+2000 || withCode != 1000 {
			b.Errorf("%d changes told, %d exit codes", len(b.told), withCode)
		}
	})
}

// 1,000 statuses too slow for the deadline: all events without details, then all
// details.
func TestManySlow(t *testing.T) {
	onBench(t, Options{}, func(b *bench) {
		b.pods(100)
		for i := range 1000 {
			b.set(fmt.Sprintf("p%d", i%100), fmt.Sprintf("c%d", i), isExited)
		}
		b.onStatus = func(context.Context, string) error { time.Sleep(5 * time.Second); return nil }
		b.engine.Relist(b.Context(), Request{})
		b.pass(time.Second)
		if len(b.told) != 2100 {
			b.Errorf("%d changes told by the deadline", len(b.told))
		}
		b.take()
		b.pass(time.Minute)
		if len(b.told) != 1000 || b.told[0].Type != event.PodSync {
			b.Errorf("%d syncs told", len(b.told))
		}
		if b.most > statusCalls {
			b.Errorf("%d status reads at once", b.most)
		}
	})
}

func TestManyHangingDelayNobody(t *testing.T) {
	onBench(t, Options{}, func(b *bench) {
		b.pods(60)
		var hanging []string
		for i := range 40 {
			id := fmt.Sprintf("hangs%d", i)
			hanging = append(hanging, id)
			b.set(fmt.Sprintf("p%d", i), id, isExited)
		}
		b.hang(hanging...)
		b.relist("")
		b.pass(time.Second)
		b.take()
		at := time.Since(b.start)
		for i := range 20 {
			b.set(fmt.Sprintf("p%d", 40+i), fmt.Sprintf("c%d", i), isExited)
		}
		b.relist("")
		if len(b.told) != 40 {
			b.Fatalf("%d changes told at once, want 40", len(b.told))
		}
		for _, c := range b.told {
			if c.after != at || c.Status == nil {
				b.Errorf("%s came after %s, status %v", describeChange(&c.Change), c.after-at, c.Status)
			}
		}
	})
}

// Even those that come together with 40 that hang are not delayed beyond the
// deadline.
func TestTogetherWithHanging(t *testing.T) {
	onBench(t, Options{}, func(b *bench) {
		b.pods(60)
		var hanging []string
		for i := range 60 {
			id := fmt.Sprintf("c%d", i)
			b.set(fmt.Sprintf("p%d", i), id, isExited)
			if i < 40 {
				hanging = append(hanging, id)
			}
		}
		b.hang(hanging...)
		b.relist("")
		b.pass(3 * slotTime)
		withCode := 0
		for _, c := range b.told {
			if c.Status != nil && c.Status.ExitCode != nil {
				withCode++
			}
		}
		if withCode != 20 {
			b.Errorf("%d exit codes told, want 20", withCode)
		}
	})
}
