package pleg_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/internal/embedded"
	"github.com/hybrid-pleg/hybrid-pleg/internal/eventtest"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/merge"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/pleg"
)

// TestWatchersThatLag has one that comes late and still gets everything, and one
// that the journal can't wait for.
func TestWatchersThatLag(t *testing.T) {
	for name, journal := range map[string]int{"within the journal": 4096, "beyond the journal": 8} {
		t.Run(name, func(t *testing.T) { testWatcherThatLags(t, journal) })
	}
}

// testWatcherThatLags has a watcher that takes nothing until much has happened.
func testWatcherThatLags(t *testing.T, journal int) {
	s := newStage(t)
	s.run(func(o *pleg.Options) { o.JournalEvents = journal })
	w, err := s.g.Watch(merge.WatchOptions{})
	check(t, err)
	defer w.Close()
	sandbox, config := s.pod("busy")
	for i := range 10 {
		id := s.container(sandbox, config, "main", uint32(i), "exit", "0")
		s.await(id, event.ContainerDied)
	}
	check(t, s.g.Healthy())
	s.stop()

	told := s.told()
	var got []event.Event
	expired, pods, synced := 0, 0, 0
	for item, err := range w.All(t.Context()) {
		if err != nil {
			if !errors.Is(err, merge.ErrClosed) {
				t.Fatal(err)
			}
			break
		}
		switch item.Kind {
		case merge.ItemEvent:
			got = append(got, *item.Event)
		case merge.ItemExpired:
			expired++
		case merge.ItemPod:
			pods++
		case merge.ItemSynced:
			synced++
		}
	}
	if journal > len(told) {
		if expired != 0 || pods != 0 || synced != 1 || len(got) != len(told) {
			t.Errorf("%d expired, %d pods, %d synced, %d of %d events", expired, pods, synced, len(got), len(told))
		}
		if err := eventtest.CheckLaw(got); err != nil {
			t.Error(err)
		}
		return
	}
	if expired != 1 || pods != 1 || synced != 2 || len(got) != 0 {
		t.Errorf("%d expired, %d pods, %d synced, %d events", expired, pods, synced, len(got))
	}
}

// TestWatch opens watchers before Run, during it, with a token, and after it.
func TestWatch(t *testing.T) {
	s := newStage(t)
	sandbox, config := s.pod("watched")
	first := s.container(sandbox, config, "first", 0, "run")
	var early *merge.Watcher
	s.run(func(o *pleg.Options) {
		g, err := pleg.New(pleg.Options{Endpoint: o.Endpoint, Triggers: noTriggers})
		check(t, err)
		if early, err = g.Watch(merge.WatchOptions{}); err != nil {
			t.Fatal(err)
		}
		if snap := g.Snapshot(); len(snap.Pods) != 0 {
			t.Errorf("a generator that has looked at nothing knows %d pods", len(snap.Pods))
		}
		if item, err := early.Next(t.Context()); err != nil || item.Kind != merge.ItemSynced {
			t.Errorf("got %v, %v", item.Kind, err)
		}
		early.Close()
	})
	s.await(first, event.ContainerStarted)

	snap := s.g.Snapshot()
	if len(snap.Pods) != 1 || len(snap.Pods[0].Containers) != 1 || snap.Pods[0].Containers[0].State != event.StateRunning {
		t.Errorf("the snapshot is %+v", snap)
	}
	since, err := s.g.Watch(merge.WatchOptions{Since: snap.Token})
	check(t, err)
	defer since.Close()
	second := s.container(sandbox, config, "second", 0, "run")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for item, err := range since.All(ctx) {
		check(t, err)
		if item.Kind == merge.ItemEvent && item.Event.ID == second+"/ContainerStarted" {
			break
		}
		if item.Kind == merge.ItemPod || item.Kind == merge.ItemExpired {
			t.Errorf("got %v", item.Kind)
		}
	}
	s.stop()
	if _, err := s.g.Watch(merge.WatchOptions{}); !errors.Is(err, merge.ErrClosed) {
		t.Errorf("a watch after the end: %v", err)
	}
	if len(s.g.Snapshot().Pods) != 1 {
		t.Error("the snapshot is gone")
	}
}

// TestEndTellsAll ends a run in the middle of much happening: what was counted as
// told, a watcher gets, in whole, before it is told that the log is closed.
func TestEndTellsAll(t *testing.T) {
	s := newStage(t)
	s.run(nil)
	w, err := s.g.Watch(merge.WatchOptions{})
	check(t, err)
	defer w.Close()
	done := make(chan error, 1)
	var got []event.Event
	go func() {
		for item, err := range w.All(context.Background()) {
			if err != nil {
				done <- err
				return
			}
			if item.Kind == merge.ItemEvent {
				got = append(got, *item.Event)
			}
		}
	}()
	for i := range 30 {
		sandbox, config := s.pod(fmt.Sprintf("busy-%d", i))
		s.container(sandbox, config, "main", 0, "exit", "0", "after", "5ms")
	}
	s.stop()
	if err := <-done; !errors.Is(err, merge.ErrClosed) {
		t.Errorf("the watch ended with %v", err)
	}
	if told := s.told(); len(got) != len(told) {
		t.Errorf("the watcher got %d of %d events", len(got), len(told))
	}
}

func TestRequests(t *testing.T) {
	s := newStage(t)
	s.run(func(o *pleg.Options) { o.Triggers, o.RelistPeriod = noTriggers, time.Hour })
	until(t, "it has listed", func() bool { return s.g.Healthy() == nil })
	sandbox, config := s.pod("asked")
	s.g.RequestRelist("")
	s.await(sandbox, event.SandboxStarted)
	id := s.container(sandbox, config, "main", 0, "run")
	s.g.RequestRelist(uid("asked"))
	if e := s.await(id, event.ContainerStarted); e.Detection.FoundBy != event.FoundEarly {
		t.Errorf("found by %s", e.Detection.FoundBy)
	}

	s.g.RequestReinspect(uid("asked"))
	sync := s.await(uid("asked"), event.PodSync)
	if sync.Pod.Name != "asked" || sync.Container != nil {
		t.Errorf("got %+v", sync)
	}
	// With a change there is that, and no PodSync beside it.
	check(t, s.rt.Exit(id, 0, ""))
	_, err := s.rt.Wait(t.Context(), id)
	check(t, err)
	s.g.RequestReinspect(uid("asked"))
	s.await(id, event.ContainerDied)
	// Of a pod that is not there, nothing is told.
	s.g.RequestReinspect(uid("nobody"))
	s.g.RequestRelist(uid("nobody"))
	s.relisted()
	syncs := 0
	for _, e := range s.told() {
		if e.Type == event.PodSync {
			syncs++
		}
	}
	if syncs != 1 {
		t.Errorf("%d PodSyncs", syncs)
	}
}

func TestRunTwice(t *testing.T) {
	s := newStage(t)
	s.run(nil)
	s.relisted()
	if err := s.g.Run(t.Context()); !errors.Is(err, pleg.ErrRunTwice) {
		t.Errorf("got %v", err)
	}
	s.stop()
	if err := s.g.Run(t.Context()); !errors.Is(err, pleg.ErrRunTwice) {
		t.Errorf("got %v", err)
	}
	// What is asked for after the end goes nowhere, and hangs nowhere.
	s.g.RequestRelist("")
	s.g.RequestReinspect("x")
	if err := s.g.Connect(t.Context()); err == nil {
		t.Error("a generator that has ended connects")
	}
}

// TestEndWhileAllHangs ends a run while the runtime answers nothing any more, and
// events wait for their details.
func TestEndWhileAllHangs(t *testing.T) {
	s := newStage(t)
	s.run(func(o *pleg.Options) { o.StatusDeadline = time.Hour })
	s.relisted()
	sandbox, config := s.pod("stuck")
	s.await(sandbox, event.SandboxStarted)
	s.rt.Faults().Add(embedded.Fault{Method: "ContainerStatus", Hang: true})
	s.container(sandbox, config, "main", 0, "run")
	until(t, "the start is seen", func() bool { return s.metric("running_containers", "running") == 1 })
	s.rt.Faults().Add(embedded.Fault{Hang: true})
	s.g.RequestRelist("")
	check(t, s.rt.WaitCalls(t.Context(), "ListPodSandbox", func(c embedded.CallStats) bool { return c.InFlight > 0 }))
	s.stop()
	told := s.told()
	if last := told[len(told)-1]; last.Type != event.ContainerStarted || last.StatusMissing == "" {
		t.Errorf("what was known is not told at the end: %+v", last)
	}
}
