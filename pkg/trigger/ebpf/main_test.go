//go:build linux

package ebpf

import (
	"context"
	"errors"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/bpf/bpftest"
	"github.com/hybrid-pleg/hybrid-pleg/internal/testutil"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/trigger"
)

func TestMain(m *testing.M) { os.Exit(bpftest.Main(m)) }

// sink keeps the signals of the containers that a test asks about; others may run on the
// host.
type sink struct {
	up chan struct{}

	mu      sync.Mutex
	signals []trigger.Signal
}

func newSink() *sink { return &sink{up: make(chan struct{})} }

func (s *sink) Up() { close(s.up) }

func (s *sink) Signal(signal trigger.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.signals = append(s.signals, signal)
}

// of returns the signals of one container so far.
func (s *sink) of(c *bpftest.Container) []trigger.Signal {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []trigger.Signal
	for _, signal := range s.signals {
		if signal.ContainerID == c.ID {
			found = append(found, signal)
		}
	}
	return found
}

func (s *sink) count(kind trigger.Kind) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, signal := range s.signals {
		if signal.Kind == kind {
			n++
		}
	}
	return n
}

// run starts the source, waits until it is up, and returns what stops it.
func run(t *testing.T, source *Source, sink *sink) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- source.Run(ctx, sink) }()
	select {
	case <-sink.up:
	case err := <-done:
		cancel()
		if errors.Is(err, trigger.ErrUnsupported) {
			testutil.Need(t, "ebpf", err)
		}
		t.Fatalf("Run: %v", err)
	case <-time.After(time.Minute):
		t.Fatal("the source does not come up")
	}
	stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("Run: %v", err)
			}
		case <-time.After(10 * time.Second):
			t.Error("Run does not end")
		}
	})
	t.Cleanup(stop)
	return stop
}
