package e2e

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/internal/eventtest"
	"github.com/hybrid-pleg/hybrid-pleg/internal/testruntime"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/merge"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/pleg"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/trigger"
	"github.com/prometheus/client_golang/prometheus"
)

// arm is one generator with a choice of triggers, and the events it has told.
type arm struct {
	name string
	g    *pleg.Generator
	reg  *prometheus.Registry

	mu     sync.Mutex
	events []event.Event
	got    []time.Time   // when each arrived
	more   chan struct{} // closed and renewed with each event
}

// triggerChoices are the choices that must agree.
func triggerChoices() map[string][]trigger.SourceName {
	return map[string][]trigger.SourceName{
		"all":    pleg.AllTriggers(),
		"cgroup": {trigger.SourceCgroup},
		"ebpf":   {trigger.SourceEBPF},
		"cri":    {trigger.SourceCRI},
		"none":   {},
	}
}

// startArm runs a generator until the test ends, and waits until its triggers
// work and it has listed everything.
func startArm(t testing.TB, rt *testruntime.Runtime, name string, opts pleg.Options) *arm {
	t.Helper()
	a := &arm{name: name, reg: prometheus.NewRegistry(), more: make(chan struct{})}
	opts.Endpoint = rt.Endpoint()
	opts.Registerer = a.reg
	if opts.Log == nil {
		opts.Log = slog.New(slog.NewTextHandler(testWriter{t, name}, &slog.HandlerOptions{Level: slog.LevelWarn}))
	}
	var err error
	if a.g, err = pleg.New(opts); err != nil {
		t.Fatal(err)
	}
	w, err := a.g.Watch(merge.WatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := a.g.Run(ctx); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	})
	wg.Go(func() { a.collect(w) })
	t.Cleanup(func() {
		cancel()
		wg.Wait()
		w.Close()
		if err := eventtest.CheckLaw(a.told()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	})
	waitFor(t, "the triggers of arm "+name, func() error {
		if err := a.g.Healthy(); err != nil {
			return err
		}
		for _, s := range a.g.Sources() {
			if !s.Up {
				return fmt.Errorf("%s is down: %w", s.Name, s.Err)
			}
		}
		return nil
	})
	return a
}

func (a *arm) collect(w *merge.Watcher) {
	for item, err := range w.All(context.Background()) {
		if err != nil {
			return
		}
		if item.Kind != merge.ItemEvent {
			continue
		}
		a.mu.Lock()
		a.events = append(a.events, *item.Event)
		a.got = append(a.got, time.Now())
		close(a.more)
		a.more = make(chan struct{})
		a.mu.Unlock()
	}
}

// told returns the events so far.
func (a *arm) told() []event.Event {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.events)
}

// ofPod returns the events of a pod so far.
func (a *arm) ofPod(uid string) []event.Event {
	return slices.DeleteFunc(a.told(), func(e event.Event) bool { return e.Pod.UID != uid })
}

// await waits until the events so far satisfy ok.
func (a *arm) await(t testing.TB, what string, ok func([]event.Event) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		a.mu.Lock()
		events, more := slices.Clone(a.events), a.more
		a.mu.Unlock()
		if ok(events) {
			return
		}
		select {
		case <-more:
		case <-ctx.Done():
			t.Fatalf("%s: no %s within %s; told so far:\n%s", a.name, what, patience, lines(events))
		}
	}
}

// patience is how long to wait for what must come. It bounds a failing test, and
// says nothing about speed.
const patience = time.Minute

// waitFor polls until check is content.
func waitFor(t testing.TB, what string, check func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("waited %s for %s: %v", patience, what, err)
		}
	}
}

func lines(events []event.Event) string {
	var b strings.Builder
	for _, e := range events {
		fmt.Fprintf(&b, "%6d %-17s %s/%s", e.Sequence, e.Type, e.Pod.Namespace, e.Pod.Name)
		if e.Container != nil {
			fmt.Fprintf(&b, " %s#%d", e.Container.Name, e.Container.Attempt)
		}
		if e.Status != nil && e.Status.ExitCode != nil {
			fmt.Fprintf(&b, " exit %d", *e.Status.ExitCode)
		}
		fmt.Fprintf(&b, " %s→%s %s %s %s inferred=%t\n", e.From, e.To, e.Detection.FoundBy, e.Detection.Trigger, e.StatusMissing, e.Inferred)
	}
	return b.String()
}

// testWriter sends a generator's log to the test's.
type testWriter struct {
	t    testing.TB
	name string
}

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Logf("%s: %s", w.name, strings.TrimSuffix(string(p), "\n"))
	return len(p), nil
}
