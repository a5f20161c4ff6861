package pleg_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/pleg"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/trigger"
)

// source is a trigger source of a test's own.
type source struct {
	name trigger.SourceName
	runs atomic.Int32
	run  func(context.Context, trigger.Sink) error
}

func (s *source) Name() trigger.SourceName { return s.name }

func (s *source) Run(ctx context.Context, sink trigger.Sink) error {
	s.runs.Add(1)
	return s.run(ctx, sink)
}

// TestSourceFails replaces the ebpf source by ones that fail in one way or other:
// the rest goes on, with a short period, and one line says so.
func TestSourceFails(t *testing.T) {
	boom := errors.New("boom")
	tests := []struct {
		name   string
		run    func(context.Context, trigger.Sink) error
		reason string // of trigger_source_down_info
		lines  int
	}{
		{"at once", func(context.Context, trigger.Sink) error { return boom }, "failed", 1},
		{"for good", func(context.Context, trigger.Sink) error {
			return fmt.Errorf("%w: no BTF", trigger.ErrUnsupported)
		}, "unsupported", 1},
		{"never comes up", func(ctx context.Context, _ trigger.Sink) error {
			<-ctx.Done()
			return nil
		}, "starting", 0},
		{"after it was up", func(_ context.Context, sink trigger.Sink) error {
			sink.Up()
			return boom
		}, "failed", 1},
		{"without a word", func(context.Context, trigger.Sink) error { return nil }, "failed", 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := newStage(t)
			src := &source{name: trigger.SourceEBPF, run: test.run}
			s.run(func(o *pleg.Options) {
				o.Triggers = pleg.AllTriggers()
				o.Sources = []trigger.Source{src}
			})
			until(t, "the others are up", func() bool {
				return s.metric("trigger_source_up", "cgroup") == 1 && s.metric("trigger_source_up", "cri") == 1
			})
			until(t, "it has failed", func() bool { return s.metric("trigger_source_down_info", "ebpf", test.reason) == 1 })
			sandbox, config := s.pod("p")
			id := s.container(sandbox, config, "main", 0, "exit", "0")
			s.await(id, event.ContainerDied)
			s.relisted()
			if got := s.metric("relist_period_seconds"); got != 0.1 {
				t.Errorf("the period is %v", got)
			}
			if n := s.count("level=WARN", "source=ebpf"); n != test.lines {
				t.Errorf("%d lines say that it is down", n)
			}
			check(t, s.g.Healthy())
			if got := s.g.Sources(); len(got) != 3 {
				t.Errorf("the sources are %+v", got)
			}
		})
	}
}

// TestSourceOfOnesOwn has one beside the triggers, whose signals may be anything.
func TestSourceOfOnesOwn(t *testing.T) {
	s := newStage(t)
	sandbox, config := s.pod("own")
	id := s.container(sandbox, config, "main", 0, "run")
	told := make(chan trigger.Signal)
	src := &source{name: "mine", run: func(ctx context.Context, sink trigger.Sink) error {
		sink.Up()
		for {
			select {
			case sig := <-told:
				sink.Signal(sig)
			case <-ctx.Done():
				return nil
			}
		}
	}}
	s.run(func(o *pleg.Options) {
		o.Triggers, o.Sources, o.RelistPeriod = noTriggers, []trigger.Source{src}, time.Hour
	})
	s.await(id, event.ContainerStarted)
	until(t, "it is up", func() bool { return s.metric("trigger_source_up", "mine") == 1 })

	check(t, s.rt.Exit(id, 0, ""))
	_, err := s.rt.Wait(t.Context(), id)
	check(t, err)
	told <- trigger.Signal{Source: "mine", Kind: trigger.KindExited, ContainerID: id, At: time.Now()}
	if e := s.await(id, event.ContainerDied); e.Detection.Trigger != "mine" || e.Detection.SignalAt.IsZero() {
		t.Errorf("put down to %+v", e.Detection)
	}
	// Lies make no events.
	before := len(s.told())
	for _, sig := range []trigger.Signal{
		{Source: "mine", Kind: trigger.KindExited, ContainerID: sandbox},
		{Source: "mine", Kind: trigger.KindRemoved, ContainerID: id},
		{Source: "mine", Kind: trigger.KindStarted, ContainerID: "nobody", PodUID: "none"},
		{Source: "mine", Kind: trigger.KindLost},
		{Source: "mine", Kind: "\xff", ContainerID: "\xff"},
		{Source: "\xff", Kind: trigger.KindExited, ContainerID: "nobody"},
		{},
	} {
		sig.At = time.Now()
		told <- sig
	}
	s.relisted()
	if got := len(s.told()); got != before {
		t.Errorf("%d events came of nothing", got-before)
	}
	if n := s.metric("signals_total", "other"); n < 3 {
		t.Errorf("%v odd signals were counted", n)
	}
	if n := src.runs.Load(); n != 1 {
		t.Errorf("it was run %d times", n)
	}
}
