//go:build linux

package ebpf

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hybrid-pleg/hybrid-pleg/bpf/bpftest"
	"github.com/hybrid-pleg/hybrid-pleg/internal/testutil"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/trigger"
)

// wantSignals waits until a container has had just these signals.
func wantSignals(t *testing.T, sink *sink, c *bpftest.Container, kinds ...trigger.Kind) {
	t.Helper()
	err := bpftest.Eventually(func() error {
		got := sink.of(c)
		if len(got) != len(kinds) {
			return fmt.Errorf("got %v\nwant %v", got, kinds)
		}
		for i, kind := range kinds {
			if got[i].Kind != kind {
				return fmt.Errorf("got %v\nwant %v", got, kinds)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func each(t *testing.T, test func(*testing.T, bpftest.Hierarchy)) {
	t.Helper()
	t.Run("v2", func(t *testing.T) { test(t, bpftest.V2) })
	t.Run("v1", func(t *testing.T) { test(t, bpftest.V1) })
}

func TestSignals(t *testing.T) {
	tree := bpftest.NewTree(t, bpftest.V2)
	sink := newSink()
	run(t, New(Options{}), sink)

	before := time.Now()
	c := tree.Container(t)
	p := c.Start(t)
	wantSignals(t, sink, c, trigger.KindStarted)
	p.Do(t, "run 3")
	p.Quit(t)
	wantSignals(t, sink, c, trigger.KindStarted, trigger.KindExited)
	after := time.Now()

	last := before
	for _, signal := range sink.of(c) {
		if signal.Source != trigger.SourceEBPF || signal.PodUID != c.PodUID || signal.CgroupID != c.CgroupID || signal.Foreign {
			t.Errorf("got %+v", signal)
		}
		if signal.At.Before(last) || signal.At.After(after) {
			t.Errorf("%v at %v, not between %v and %v", signal.Kind, signal.At, last, after)
		}
		last = signal.At
	}
}

func TestContainersOfOthers(t *testing.T) {
	tree := bpftest.NewTree(t, bpftest.V2)
	sink := newSink()
	run(t, New(Options{}), sink)

	docker := tree.Foreign(t)
	docker.Start(t).Quit(t)
	wantSignals(t, sink, docker, trigger.KindStarted, trigger.KindExited)
	for _, signal := range sink.of(docker) {
		if !signal.Foreign || signal.PodUID != "" {
			t.Errorf("got %+v", signal)
		}
	}
}

func TestRunningContainersAreTakenOver(t *testing.T) {
	each(t, func(t *testing.T, h bpftest.Hierarchy) {
		tree := bpftest.NewTree(t, h)
		if h == bpftest.V1 && !watchesTestController(t) {
			t.Skip("the source looks in another v1 hierarchy here")
		}
		c := tree.Container(t)
		p := c.Start(t)
		p.Do(t, "spawn") // a child that outlives it
		c.Start(t)       // kubectl exec
		nested := tree.Container(t)
		q := nested.Below(t, "container").Start(t)
		created := tree.Container(t)
		r := created.Init(t)

		sink, log := newSink(), &strings.Builder{}
		run(t, New(Options{Log: slog.New(slog.NewTextHandler(log, nil))}), sink)
		// Written before Up. Others may run on the host.
		if n := takenOver(t, log.String()); n < 3 {
			t.Fatalf("%d containers are taken over", n)
		}
		p.Quit(t)
		wantSignals(t, sink, c, trigger.KindExited)
		q.Quit(t)
		wantSignals(t, sink, nested, trigger.KindExited)
		r.Do(t, "exec")
		wantSignals(t, sink, created, trigger.KindStarted)
		r.Quit(t)
		wantSignals(t, sink, created, trigger.KindStarted, trigger.KindExited)
	})
}

// takenOver is the number of containers that the log line at the beginning tells.
func takenOver(t *testing.T, log string) int {
	t.Helper()
	var n int
	_, line, ok := strings.Cut(log, "probe attached")
	if _, rest, found := strings.Cut(line, "containers="); !ok || !found {
		t.Fatalf("no line says that the probe is attached: %q", log)
	} else if _, err := fmt.Sscan(rest, &n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestAttachedIsLoggedWithoutTakingOver(t *testing.T) {
	var log strings.Builder
	source := New(Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	source.seed(t.Context(), nil, places{hidden: errors.New("nothing mounted")}, newSink())
	if n := takenOver(t, log.String()); n != 0 || strings.Count(log.String(), "level=WARN") != 1 {
		t.Errorf("log: %s", log.String())
	}
}

// Containers that start and end while the source begins: the end of each must be told.
func TestNothingIsLostWhileBeginning(t *testing.T) {
	tree := bpftest.NewTree(t, bpftest.V2)
	sink := newSink()
	ctx, cancel := context.WithCancel(t.Context())
	var err error // of Run, once done is closed
	done := make(chan struct{})
	// The source runs beside and the containers here: only a test's own goroutine may fail it.
	go func() {
		defer close(done)
		err = New(Options{}).Run(ctx, sink)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
		if err != nil && !t.Skipped() {
			t.Errorf("Run: %v", err)
		}
	})
	// Those that live while the source begins: from before Attach on, and a few after Up.
	var containers []*bpftest.Container
	for after := 0; after < 3; {
		c := tree.Container(t)
		p := c.Start(t)
		select {
		case <-done:
			if errors.Is(err, trigger.ErrUnsupported) {
				testutil.Need(t, "ebpf", err)
			}
			t.Fatal("Run ended early")
		case <-sink.up:
			containers = append(containers, c)
			after++
		default:
		}
		p.Quit(t)
	}
	for _, c := range containers {
		err := bpftest.Eventually(func() error {
			got := sink.of(c)
			if len(got) == 0 || got[len(got)-1].Kind != trigger.KindExited {
				return fmt.Errorf("got %v, no end", got)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}

func TestOverflowIsSignalled(t *testing.T) {
	tree := bpftest.NewTree(t, bpftest.V2)
	sink := newSink()
	run(t, New(Options{RingSize: uint32(os.Getpagesize())}), sink)

	// A stuck sink holds up the reading, as an overloaded machine would.
	sink.mu.Lock()
	for range os.Getpagesize() / 512 {
		tree.Container(t).Start(t)
	}
	sink.mu.Unlock()
	err := bpftest.Eventually(func() error {
		if n := sink.count(trigger.KindLost); n == 0 {
			return errors.New("no signal of loss")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	c := tree.Container(t)
	c.Start(t).Quit(t)
	wantSignals(t, sink, c, trigger.KindStarted, trigger.KindExited)
}

func TestNothingIsLeftBehind(t *testing.T) {
	if err := Probe(); err != nil {
		if errors.Is(err, trigger.ErrUnsupported) {
			testutil.Need(t, "ebpf", err)
		}
		t.Fatal(err)
	}
	ignore := goleak.IgnoreCurrent()
	source := New(Options{})
	count := func() int {
		fds, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(fds)
	}
	run(t, source, newSink())()
	before := count()
	turns := 3
	if testing.Short() {
		turns = 1
	}
	for range turns {
		run(t, source, newSink())()
	}
	if after := count(); after != before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
	goleak.VerifyNone(t, ignore)
}

// watchesTestController reports whether the source looks where the tests make their v1 cgroups.
func watchesTestController(t *testing.T) bool {
	t.Helper()
	where, err := findPlaces("/proc")
	if err != nil {
		t.Fatal(err)
	}
	return where.v1.ID == bpftest.V1ID(t)
}
