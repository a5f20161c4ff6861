package relist

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func TestHangingList(t *testing.T) {
	onBench(t, Options{ListTimeout: 10 * time.Second}, func(b *bench) {
		b.pod("p")
		b.relist("")
		b.take()
		var (
			hang  atomic.Bool
			lists atomic.Int32
		)
		hang.Store(true)
		b.onList = func(ctx context.Context) error {
			lists.Add(1)
			if !hang.Load() {
				return nil
			}
			<-ctx.Done()
			return ctx.Err()
		}
		results := make(chan Result, 3)
		for range 3 {
			go func() { results <- b.engine.Relist(b.Context(), Request{Periodic: true}) }()
		}
		b.pass(4 * time.Second)
		if got := b.engine.InFlight(); got != 4*time.Second {
			b.Errorf("in flight for %s", got)
		}
		if n := lists.Load(); n != 1 {
			b.Errorf("%d listings at once", n)
		}
		// One pod's listing does not wait for it.
		hang.Store(false)
		b.set("p", "c", isRunning)
		b.relist("p")
		b.want("p ContainerStarted c (app/0) non-existent -> running")
		hang.Store(true)

		b.pass(6 * time.Second)
		res := <-results
		if !errors.Is(res.Err, context.DeadlineExceeded) || res.Outcome() != "timeout" || res.Took != 10*time.Second {
			b.Errorf("%v after %s, outcome %s", res.Err, res.Took, res.Outcome())
		}
		if err := b.engine.Healthy(); err != nil {
			b.Errorf("not healthy after one failure: %v", err)
		}
		b.pass(20 * time.Second)
		<-results
		<-results
		if b.engine.InFlight() != 0 {
			b.Errorf("in flight for %s", b.engine.InFlight())
		}
	})
}

func TestHealthy(t *testing.T) {
	onBench(t, Options{ListTimeout: time.Hour}, func(b *bench) {
		healthy := func(want string) {
			b.Helper()
			got := "healthy"
			if err := b.engine.Healthy(); err != nil {
				got = err.Error()
			}
			if got != want {
				b.Errorf("%s\nwant: %s", got, want)
			}
		}
		healthy("the runtime has not been listed yet")
		b.onList = func(context.Context) error { return errors.New("it is down") }
		b.engine.Relist(b.Context(), Request{})
		healthy("the runtime has not been listed yet; the last one failed: list pod sandboxes: it is down")
		if !errors.Is(b.engine.Healthy(), ErrNotListed) {
			b.Error("not ErrNotListed")
		}
		b.onList = nil
		b.relist("")
		healthy("healthy")
		b.pass(3 * time.Minute)
		healthy("healthy")
		b.pass(time.Second)
		healthy("the last good listing is 3m1s old, more than 3m0s")

		// A pod's listing says nothing of everybody's.
		b.relist("p")
		healthy("the last good listing is 3m1s old, more than 3m0s")

		ctx, cancel := context.WithCancel(b.Context())
		b.onList = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		done := make(chan Result)
		go func() { done <- b.engine.Relist(ctx, Request{}) }()
		b.pass(time.Minute)
		healthy("the last good listing is 4m1s old, more than 3m0s; one has been under way for 1m0s")
		// Its caller gives up: that is no failure of the runtime.
		cancel()
		if res := <-done; res.Outcome() != "canceled" {
			b.Errorf("outcome %s: %v", res.Outcome(), res.Err)
		}
		healthy("the last good listing is 4m1s old, more than 3m0s")
		if !b.engine.LastListed().Equal(b.start) {
			b.Errorf("last listed %s", b.engine.LastListed())
		}
	})
}

// A listing that fails, wholly or after the sandboxes, changes nothing.
func TestFailedListing(t *testing.T) {
	onBench(t, Options{}, func(b *bench) {
		b.pod("p")
		b.set("p", "c", isRunning)
		b.relist("")
		b.take()
		fail := partial{b.fakeRuntime}
		for _, uid := range []string{"", "p"} {
			var err error
			if uid == "" {
				_, err = listAll(b.Context(), fail, b.engine.store)
			} else {
				_, err = listPod(b.Context(), fail, b.engine.store, uid)
			}
			if err == nil {
				b.Errorf("listing %q: no error", uid)
			}
		}
		b.onList = func(context.Context) error { return errors.New("no") }
		for _, uid := range []string{"", "p"} {
			if res := b.engine.Relist(b.Context(), Request{PodUID: uid}); res.Err == nil || len(res.Changes) > 0 {
				b.Errorf("%+v", res)
			}
		}
		b.want()
		if b.engine.Store().State("c") != event.StateRunning {
			b.Error("the record changed")
		}
	})
}

type partial struct{ *fakeRuntime }

func (partial) ListContainers(context.Context, *runtimeapi.ContainerFilter) ([]*runtimeapi.Container, error) {
	return nil, errors.New("half")
}

func TestReinspect(t *testing.T) {
	onBench(t, Options{}, func(b *bench) {
		b.pod("p")
		b.relist("")
		b.take()
		inspect := func(uid string) {
			b.engine.Relist(b.Context(), Request{PodUID: uid, Reinspect: true})
			synctest.Wait()
		}
		inspect("p")
		if c := b.told[0]; c.Sandbox == nil || c.Sandbox.ID != "sandbox-p" {
			b.Errorf("of sandbox %+v", c.Sandbox)
		}
		b.want("p PodSync ")
		b.set("p", "c", isRunning)
		inspect("p")
		b.want("p ContainerStarted c (app/0) non-existent -> running")
		b.set("p", "c", runtimeapi.ContainerState_CONTAINER_UNKNOWN)
		inspect("p")
		b.want("p - c (app/0) running -> unknown", "p PodSync ")
		inspect("nobody")
		b.want()
	})
}

func TestDetection(t *testing.T) {
	onBench(t, Options{}, func(b *bench) {
		found := func(req Request) event.Detection {
			b.Helper()
			if res := b.engine.Relist(b.Context(), req); res.Err != nil {
				b.Fatal(res.Err)
			}
			synctest.Wait()
			if len(b.told) != 1 {
				b.Fatalf("%d changes", len(b.told))
			}
			d := b.told[0].Detection
			b.take()
			return d
		}
		signal := b.start.Add(-time.Millisecond)
		hint := func(uid, id string) (string, time.Time) { return "ebpf for " + uid + " " + id, signal }

		b.pod("p")
		if d := found(Request{Hint: hint}); d.FoundBy != event.FoundStartup || d.Trigger != "" || !d.SignalAt.IsZero() {
			b.Errorf("at startup: %+v", d)
		}
		b.set("p", "c", isCreated)
		b.pass(time.Second)
		d := found(Request{PodUID: "p", Hint: hint})
		if d.FoundBy != event.FoundEarly || d.Trigger != "ebpf for p c" || !d.SignalAt.Equal(signal) || !d.ObservedAt.Equal(b.start.Add(time.Second)) {
			b.Errorf("early: %+v", d)
		}
		b.set("p", "c", isRunning)
		if d := found(Request{PodUID: "p"}); d.FoundBy != event.FoundEarly || d.Trigger != "" {
			b.Errorf("early without a hint: %+v", d)
		}
		b.set("p", "c", isExited)
		if d := found(Request{Periodic: true, Hint: hint}); d.FoundBy != event.FoundPeriodic || d.Trigger != "" {
			b.Errorf("periodic: %+v", d)
		}
	})
}

// Close hands on what is queued, at once, and ends the reads that hang.
func TestClose(t *testing.T) {
	onBench(t, Options{}, func(b *bench) {
		b.pod("p")
		b.set("p", "c", isRunning)
		b.hang("c")
		b.engine.Relist(b.Context(), Request{})
		b.engine.Close()
		if time.Since(b.start) != 0 {
			b.Errorf("closing took %s", time.Since(b.start))
		}
		b.want("p SandboxStarted sandbox-p non-existent -> running",
			"p ContainerStarted c (app/0) non-existent -> running status=late")
	})
}

func TestOnRelistAndAnomalies(t *testing.T) {
	var (
		relists   []string
		anomalies []Anomaly
	)
	onBench(t, Options{
		OnRelist: func(req Request, res Result) { relists = append(relists, req.Reason+" "+res.Outcome()) },
		Store:    StoreOptions{OnAnomaly: func(a Anomaly) { anomalies = append(anomalies, a) }},
	}, func(b *bench) {
		b.list.sandboxes = append(b.list.sandboxes, nil)
		b.engine.Relist(b.Context(), Request{Reason: "first"})
		b.engine.Relist(b.Context(), Request{Reason: "second"})
		if !slices.Equal(relists, []string{"first ok", "second ok"}) {
			b.Errorf("relists %q", relists)
		}
		if !slices.Equal(anomalies, []Anomaly{AnomalyNilItem, AnomalyNilItem}) {
			b.Errorf("anomalies %q", anomalies)
		}
	})
}

func TestNewNeedsRuntimeAndSink(t *testing.T) {
	if _, err := New(Options{}); err == nil {
		t.Error("no error")
	}
}
