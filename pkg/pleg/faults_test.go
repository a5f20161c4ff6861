package pleg_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/internal/embedded"
	"github.com/hybrid-pleg/hybrid-pleg/internal/eventtest"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/pleg"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/relist"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

var gone = []event.Type{event.ContainerDied, event.ContainerRemoved, event.SandboxDied, event.SandboxRemoved}

// TestRuntimeRestarts stops and starts the runtime, once and in a loop. What runs
// on has not died; what happened meanwhile is told once.
func TestRuntimeRestarts(t *testing.T) {
	s := newStage(t)
	s.run(nil)
	sandbox, config := s.pod("steady")
	steady := s.container(sandbox, config, "steady", 0, "run")
	brief := s.container(sandbox, config, "brief", 0, "run")
	s.await(brief, event.ContainerStarted)
	s.await(steady, event.ContainerStarted)

	s.server.Stop()
	check(t, s.rt.Exit(brief, 9, ""))
	late := s.container(sandbox, config, "late", 0, "run")
	check(t, s.server.Start())
	s.await(late, event.ContainerStarted)
	if died := s.await(brief, event.ContainerDied); died.Status == nil || died.Status.ExitCode == nil || *died.Status.ExitCode != 9 {
		t.Errorf("how it ended is not told: %+v", died)
	}
	until(t, "the event stream is back", func() bool { return s.metric("trigger_source_up", "cri") == 1 })

	for i := range 5 {
		s.server.Stop()
		check(t, s.server.Start())
		id := s.container(sandbox, config, "again", uint32(i), "run")
		s.await(id, event.ContainerStarted)
	}
	s.relisted()
	for _, id := range []string{sandbox, steady, late} {
		s.never(id, gone...)
	}
	check(t, s.g.Healthy())
	s.stop()
	if got := eventtest.OfItem(s.told(), brief); got[len(got)-1] != event.ContainerDied {
		t.Errorf("told %v", got)
	}
}

// TestRuntimeForgets is what containerd shows after its own restart: running
// containers as UNKNOWN, and some not at all, though their cgroups are populated.
func TestRuntimeForgets(t *testing.T) {
	s := newStage(t)
	s.run(nil)
	sandbox, config := s.pod("forgotten")
	first := s.container(sandbox, config, "first", 0, "run")
	second := s.container(sandbox, config, "second", 0, "run")
	s.await(first, event.ContainerStarted)
	s.await(second, event.ContainerStarted)

	s.rt.MarkUnknown()
	check(t, s.rt.Vanish(second))
	s.relisted()
	s.relisted()
	s.never(first, gone...)
	s.never(second, gone...)

	s.rt.ClearStates()
	check(t, s.rt.Reappear(second))
	s.relisted()
	s.never(first, gone...)
	s.never(second, gone...)

	// One that does end while it is not listed is told.
	check(t, s.rt.Vanish(second))
	s.relisted()
	check(t, s.rt.Exit(second, 1, ""))
	s.await(second, event.ContainerDied)
	s.await(second, event.ContainerRemoved)
	s.never(first, gone...)
}

func TestRuntimeComesLate(t *testing.T) {
	s := newStage(t)
	s.server.Stop()
	s.run(nil)
	until(t, "the failure is told", func() bool { return s.count("level=WARN", "relist failed") == 1 })
	if err := s.g.Healthy(); !errors.Is(err, relist.ErrNotListed) || !errors.Is(err, relist.ErrUnavailable) {
		t.Errorf("healthy says %v", err)
	}
	if err := s.g.Connect(t.Context()); !errors.Is(err, relist.ErrUnavailable) {
		t.Errorf("connect says %v", err)
	}
	sandbox, config := s.pod("early")
	id := s.container(sandbox, config, "main", 0, "run")
	check(t, s.server.Start())
	s.await(id, event.ContainerStarted)
	check(t, s.g.Healthy())
	check(t, s.g.Connect(t.Context()))
	if n := s.count("relist failed"); n != 1 {
		t.Errorf("the failure is told %d times", n)
	}
}

// TestNoEventStream has runtimes that offer no events: at once it is said, once,
// and then left in peace.
func TestNoEventStream(t *testing.T) {
	for name, fault := range map[string]embedded.Fault{
		"unimplemented": {Method: "GetContainerEvents", Err: status.Error(codes.Unimplemented, "no events")},
		"ends at once":  {Method: "GetContainerEvents", End: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			s.rt.Faults().Add(fault)
			s.run(nil)
			until(t, "the source is down", func() bool {
				return s.metric("trigger_source_down_info", "cri", "unsupported") == 1
			})
			if s.metric("trigger_source_up", "cri") != 0 || s.metric("trigger_source_up", "cgroup") != 1 {
				t.Error("trigger_source_up is wrong")
			}
			sandbox, config := s.pod("p")
			id := s.container(sandbox, config, "main", 0, "exit", "0")
			s.await(id, event.ContainerDied)
			until(t, "the period is short", func() bool { return s.metric("relist_period_seconds") == 0.1 })
			s.relisted()
			if n := s.rt.Calls("GetContainerEvents").Total; n > 2 {
				t.Errorf("the stream was asked for %d times", n)
			}
			if n := s.count("level=WARN", "source=cri"); n != 1 {
				t.Errorf("it was told %d times", n)
			}
		})
	}
}

// TestStatusHangs has one container whose status can't be read: nobody else waits,
// and its details follow.
func TestStatusHangs(t *testing.T) {
	s := newStage(t)
	s.run(func(o *pleg.Options) { o.StatusDeadline = 100 * time.Millisecond })
	s.relisted()
	sandbox, config := s.pod("stuck")
	stuck, err := s.rt.Create(t.Context(), sandbox, embedded.ContainerConfig(config, "main", 0, "image", "run"))
	check(t, err)
	remove := s.rt.Faults().Add(embedded.Fault{Method: "ContainerStatus", ID: stuck, Hang: true})
	check(t, s.rt.Start(t.Context(), stuck))

	for i := range 20 {
		other, oconfig := s.pod("fine-" + string(rune('a'+i)))
		id := s.container(other, oconfig, "main", 0, "run")
		if e := s.await(id, event.ContainerStarted); e.StatusMissing != "" || e.Status == nil {
			t.Errorf("no details of another container: %+v", e)
		}
	}
	if e := s.await(stuck, event.ContainerStarted); e.StatusMissing != event.StatusLate {
		t.Errorf("the details are %q: %+v", e.StatusMissing, e)
	}
	check(t, s.rt.Exit(stuck, 4, ""))
	if e := s.await(stuck, event.ContainerDied); e.StatusMissing != event.StatusLate {
		t.Errorf("the details are %q: %+v", e.StatusMissing, e)
	}
	check(t, s.g.Healthy())
	remove()
	if e := s.await(stuck, event.PodSync); e.Status == nil || e.Status.ExitCode == nil || *e.Status.ExitCode != 4 {
		t.Errorf("the details that follow are %+v", e.Status)
	}
}

// TestListHangs has a runtime that lists nothing for a while: one listing at a
// time, seen in the metrics while it lasts, and nothing is lost.
func TestListHangs(t *testing.T) {
	s := newStage(t)
	s.run(func(o *pleg.Options) {
		o.ListTimeout = 300 * time.Millisecond
		o.HealthThreshold = 400 * time.Millisecond
	})
	sandbox, config := s.pod("before")
	before := s.container(sandbox, config, "main", 0, "run")
	s.await(before, event.ContainerStarted)

	remove := s.rt.Faults().Add(embedded.Fault{Method: "ListContainers", Hang: true})
	id := s.container(sandbox, config, "during", 0, "run")
	until(t, "the hang shows", func() bool { return s.metric("relist_in_flight_seconds") > 0.1 })
	until(t, "it is unhealthy", func() bool { return s.g.Healthy() != nil })
	until(t, "a timeout is counted", func() bool { return s.metric("relists_total", "timeout") > 0 })
	if n := s.rt.Calls("ListContainers").MaxInFlight; n > 5 {
		t.Errorf("%d listings at a time", n)
	}
	remove()
	s.await(id, event.ContainerStarted)
	until(t, "it is healthy", func() bool { return s.g.Healthy() == nil })
	s.never(before, gone...)
	if n := s.count("relist failed"); n != 1 {
		t.Errorf("the failure is told %d times", n)
	}
}

// TestDamagedLists spoils the lists in each way: none makes a false event, and each
// is counted where it can be told.
func TestDamagedLists(t *testing.T) {
	tests := []struct {
		name string
		what embedded.Mangle
		kind string // of list_anomalies_total, or of a failed relist's result
	}{
		{"dropped", embedded.MangleDrop, "missing_but_alive"},
		{"nil", embedded.MangleNil, "empty_id"}, // a nil arrives as an empty message
		{"no metadata", embedded.MangleNilMetadata, ""},
		{"twice", embedded.MangleDuplicate, "duplicate_id"},
		{"unknown state", embedded.MangleUnknownState, "unknown_state"},
		{"no UTF-8", embedded.MangleInvalidUTF8, "invalid_utf8"},
		{"too large", embedded.MangleOversize, "too_large"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := newStage(t)
			s.run(nil)
			sandbox, config := s.pod("whole")
			id := s.container(sandbox, config, "main", 0, "run")
			s.await(id, event.ContainerStarted)
			until(t, "both sources are up", func() bool { return s.metric("trigger_source_up") == 2 })
			before := len(s.told())

			for _, method := range []string{"ListContainers", "ListPodSandbox", "StreamContainers", "StreamPodSandboxes"} {
				s.rt.Faults().Add(embedded.Fault{Method: method, Mangle: test.what})
			}
			lists := s.rt.Calls("ListPodSandbox").Total + s.rt.Calls("StreamPodSandboxes").Total
			s.g.RequestRelist("")
			until(t, "it was listed some times", func() bool {
				return s.rt.Calls("ListPodSandbox").Total+s.rt.Calls("StreamPodSandboxes").Total > lists+3
			})
			if test.kind != "" {
				until(t, test.kind+" is counted", func() bool {
					return s.metric("list_anomalies_total", test.kind)+s.metric("relists_total", test.kind) > 0
				})
			}
			s.rt.Faults().Clear()
			s.relisted()
			if got := len(s.told()); got != before {
				t.Errorf("%d events were told", got-before)
			}
			if n := s.count("level=WARN"); n > 4 {
				t.Errorf("%d lines were logged", n)
			}
			if test.kind == "too_large" && s.count("level=WARN", "larger than a gRPC message") != 1 {
				t.Error("the log does not say what is wrong")
			}
		})
	}
}

// TestNothingIsLeft runs again and again: no descriptor stays open, and (see
// TestMain) no goroutine.
func TestNothingIsLeft(t *testing.T) {
	if _, err := os.Stat("/proc/self/fd"); err != nil {
		t.Skip("needs /proc/self/fd to count descriptors")
	}
	descriptors := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		check(t, err)
		return len(entries)
	}
	s := newStage(t)
	s.rt.SetLag(embedded.NoLag())
	s.run(nil) // the first time, much is opened for good
	s.stop()
	before := descriptors()
	for range 3 {
		again := &stage{t: t, rt: s.rt, server: s.server, tree: s.tree, reg: s.reg, log: s.log}
		again.run(func(o *pleg.Options) { o.Registerer = nil })
		sandbox, config := again.pod("p")
		for range 20 {
			id := again.container(sandbox, config, "c", uint32(len(again.told())), "run")
			again.await(id, event.ContainerStarted)
		}
		check(t, again.rt.RemovePod(context.Background(), sandbox))
		again.await(sandbox, event.SandboxRemoved)
		again.stop()
	}
	until(t, "the server has let go", func() bool { return s.rt.Calls("GetContainerEvents").InFlight == 0 })
	until(t, "no descriptor is left", func() bool { return descriptors() <= before })
}

// TestUnknownStates shows a container in states that come and go.
func TestUnknownStates(t *testing.T) {
	s := newStage(t)
	s.run(nil)
	sandbox, config := s.pod("odd")
	id := s.container(sandbox, config, "main", 0, "run")
	s.await(id, event.ContainerStarted)
	before := eventtest.OfItem(s.told(), id)
	for _, state := range []runtimeapi.ContainerState{embedded.StrangeState, runtimeapi.ContainerState_CONTAINER_UNKNOWN, runtimeapi.ContainerState_CONTAINER_CREATED, -1} {
		check(t, s.rt.SetState(id, state))
		s.relisted()
	}
	check(t, s.rt.ClearState(id))
	s.relisted()
	if got := eventtest.OfItem(s.told(), id); !slices.Equal(got, before) {
		t.Errorf("told %v, then %v", before, got)
	}
}
