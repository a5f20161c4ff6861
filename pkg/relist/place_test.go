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
)

func TestInfoPid(t *testing.T) {
	for info, want := range map[string]int{
		`{"sandboxID":"s","pid":42,"runtimeSpec":{"pid":1}}`: 42,
		`{"runtimeSpec":{"pid":1,"a":[{}]},"pid":42}`:        42,
		`{"pid":42,"what follows is not":`:                   42,
		`{"pid":0}`:                                          0,
		`{"runtimeSpec":{"pid":1}}`:                          0,
		`{"pid":"42"}`:                                       0,
		`{"pid":4.2}`:                                        0,
		`{"pid":`:                                            0,
		`{"a":{`:                                             0,
		`["pid",42]`:                                         0,
		`null`:                                               0,
		``:                                                   0,
	} {
		if got := infoPid(info); got != want {
			t.Errorf("%s: %d, want %d", info, got, want)
		}
	}
}

// inCgroups finds process 42 in the cgroup of whatever container.
func inCgroups(pid int, _, containerID string) (Place, bool) {
	return Place{"/x/" + containerID, 7}, pid == 42
}

func (b *bench) wantPlaces(want ...string) {
	b.Helper()
	b.smu.Lock()
	defer b.smu.Unlock()
	var got []string
	for _, c := range b.told {
		if c.Container == nil {
			continue
		}
		line := fmt.Sprintf("%s %s", c.Type, c.Container.ID)
		if c.Status != nil && c.Status.ExitCode != nil {
			line += fmt.Sprintf(" exit %d", *c.Status.ExitCode)
		}
		if c.Status != nil && (c.Status.Pid != 0 || c.Status.CgroupPath != "" || c.Status.CgroupID != 0) {
			line += fmt.Sprintf(" %d %s %d", c.Status.Pid, c.Status.CgroupPath, c.Status.CgroupID)
		}
		got = append(got, line)
	}
	b.told = nil
	if !slices.Equal(got, want) {
		b.Errorf("told %q, want %q", got, want)
	}
}

// Where a container was is told at its start and at its end, and asked for once.
func TestPlaces(t *testing.T) {
	locate := func(pid int, podUID, containerID string) (Place, bool) {
		if podUID != "p" {
			t.Errorf("container %s is looked for in pod %q", containerID, podUID)
		}
		return inCgroups(pid, podUID, containerID)
	}
	onBench(t, Options{Locate: locate}, func(b *bench) {
		b.pids = map[string]int{"c": 42, "other": 43}
		b.pod("p")
		b.set("p", "c", isRunning)
		b.set("p", "other", isRunning)
		b.set("p", "over", isExited)
		b.relist("")
		b.wantPlaces("ContainerStarted c 42 /x/c 7", "ContainerStarted other", "ContainerStarted over", "ContainerDied over exit 3")
		b.set("p", "c", isExited)
		b.set("p", "other", isExited)
		b.relist("p")
		b.wantPlaces("ContainerDied c exit 3 42 /x/c 7", "ContainerDied other exit 3")
		slices.Sort(b.verbose)
		if want := []string{"c", "other"}; !slices.Equal(b.verbose, want) {
			b.Errorf("verbose statuses of %v, want %v", b.verbose, want)
		}
		b.drop("c")
		b.relist("p")
		b.wantPlaces("ContainerRemoved c")
		if n := len(b.engine.starts.of); n != 0 {
			b.Errorf("%d starts are kept", n)
		}
	})
}

// The end and the removal are in one listing, and the status can't be had: what was
// told at the start is told again.
func TestPlaceOfTheRemoved(t *testing.T) {
	onBench(t, Options{Locate: inCgroups}, func(b *bench) {
		b.pids = map[string]int{"c": 42}
		b.pod("p")
		b.set("p", "c", isRunning)
		b.relist("")
		b.take()
		b.drop("c")
		b.relist("p")
		if st := b.told[0].Status; st == nil || !st.StartedAt.Equal(time.Unix(0, 100)) || b.told[0].StatusMissing != event.StatusGone {
			b.Errorf("status %+v", st)
		}
		b.wantPlaces("ContainerDied c 42 /x/c 7", "ContainerRemoved c")
	})
}

// While the start's details are being read, the container ends and is removed.
func TestPlaceOfTheRemovedMeanwhile(t *testing.T) {
	onBench(t, Options{Locate: inCgroups}, func(b *bench) {
		b.pids = map[string]int{"c": 42}
		b.pod("p")
		b.relist("")
		b.take()
		b.set("p", "c", isRunning)
		b.onStatus = func(context.Context, string) error { time.Sleep(100 * time.Millisecond); return nil }
		b.relist("p")
		b.wantPlaces()
		b.pass(50 * time.Millisecond)
		b.onStatus = nil
		// It is answered as it was when the question came.
		b.mu.Lock()
		kept := b.list.containers
		b.list.containers = nil
		b.mu.Unlock()
		b.relist("p")
		b.mu.Lock()
		b.list.containers = kept
		b.mu.Unlock()
		b.pass(100 * time.Millisecond)
		b.wantPlaces("ContainerStarted c 42 /x/c 7", "ContainerDied c 42 /x/c 7", "ContainerRemoved c")
		if n := len(b.engine.starts.of); n != 0 {
			b.Errorf("%d starts are kept", n)
		}
	})
}

// Details that come late bring the place with them, and the end has it, too.
func TestPlaceComesLate(t *testing.T) {
	onBench(t, Options{Locate: inCgroups}, func(b *bench) {
		b.pids = map[string]int{"c": 42}
		b.pod("p")
		b.set("p", "c", isRunning)
		release := b.hang("c")
		b.relist("")
		b.pass(2 * time.Second)
		b.wantPlaces("ContainerStarted c")
		release()
		synctest.Wait()
		b.wantPlaces("PodSync c 42 /x/c 7")

		var fail atomic.Bool
		fail.Store(true)
		b.onStatus = func(context.Context, string) error {
			if fail.Load() {
				return errors.New("no")
			}
			return nil
		}
		b.set("p", "c", isExited)
		b.relist("p")
		b.wantPlaces("ContainerDied c 42 /x/c 7")
		fail.Store(false)
		b.pass(2 * time.Second)
		b.wantPlaces("PodSync c exit 3 42 /x/c 7")
	})
}

// What is read ahead of a start is verbose, ahead of an end it is not.
func TestPlaceReadAhead(t *testing.T) {
	onBench(t, Options{Locate: inCgroups}, func(b *bench) {
		b.pids = map[string]int{"c": 42}
		b.pod("p")
		b.set("p", "c", isCreated)
		b.relist("")
		b.take()
		b.set("p", "c", isRunning)
		b.expecting("p", "c")
		b.wantPlaces("ContainerStarted c 42 /x/c 7")
		b.set("p", "c", isExited)
		b.expecting("p", "c")
		b.wantPlaces("ContainerDied c exit 3 42 /x/c 7")
		if b.reads != 2 || len(b.verbose) != 1 {
			b.Errorf("%d reads, %d of them verbose; want 2 and 1", b.reads, len(b.verbose))
		}
	})
}

// Without a way to make sure of it, no pid is asked for.
func TestNoLocate(t *testing.T) {
	onBench(t, Options{}, func(b *bench) {
		b.pids = map[string]int{"c": 42}
		b.pod("p")
		b.set("p", "c", isRunning)
		b.relist("")
		b.wantPlaces("ContainerStarted c")
		if len(b.verbose) != 0 {
			b.Error("a verbose status was asked for")
		}
	})
}
