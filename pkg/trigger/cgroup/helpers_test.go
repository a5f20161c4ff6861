package cgroup

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/trigger"
)

const patience = 20 * time.Second

// recorder is a sink that keeps what it is told.
type recorder struct {
	up chan struct{}

	mu      sync.Mutex
	signals []trigger.Signal
	changed chan struct{} // closed and replaced at every signal
}

func newRecorder() *recorder {
	return &recorder{up: make(chan struct{}, 16), changed: make(chan struct{})}
}

func (r *recorder) Up() { r.up <- struct{}{} }

func (r *recorder) Signal(s trigger.Signal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.signals = append(r.signals, s)
	close(r.changed)
	r.changed = make(chan struct{})
}

func (r *recorder) snapshot() ([]trigger.Signal, chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.signals[:len(r.signals):len(r.signals)], r.changed
}

// waitFor returns the first signals that done accepts.
func (r *recorder) waitFor(t testing.TB, what string, done func([]trigger.Signal) bool) []trigger.Signal {
	t.Helper()
	deadline := time.After(patience)
	for {
		signals, changed := r.snapshot()
		if done(signals) {
			return signals
		}
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("no %s within %v; signals:\n%s", what, patience, format(signals))
		}
	}
}

func (r *recorder) waitUp(t testing.TB) {
	t.Helper()
	select {
	case <-r.up:
	case <-time.After(patience):
		t.Fatalf("not up within %v", patience)
	}
}

// line is how scripts and failures write a signal.
func line(s trigger.Signal) string {
	var b strings.Builder
	b.WriteString(string(s.Kind))
	if s.PodUID != "" {
		fmt.Fprintf(&b, " pod=%s", s.PodUID)
	}
	if s.ContainerID != "" {
		fmt.Fprintf(&b, " container=%s", s.ContainerID)
	}
	if s.Foreign {
		b.WriteString(" foreign")
	}
	return b.String()
}

func format(signals []trigger.Signal) string {
	var b strings.Builder
	for _, s := range signals {
		b.WriteString("  " + line(s) + "\n")
	}
	return b.String()
}

// start runs the source until the returned function is called, which fails the test
// if Run did, or if it left something behind.
func start(t testing.TB, s *Source, r *recorder) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx, r) }()
	select {
	case <-r.up:
	case err := <-ended:
		cancel()
		t.Fatalf("Run: %v", err)
	case <-time.After(patience):
		t.Fatalf("not up within %v", patience)
	}
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			if err := <-ended; err != nil {
				t.Errorf("Run: %v", err)
			}
		})
	}
	t.Cleanup(stop)
	return stop
}

// logTo sends a source's log to the test's.
func logTo(t testing.TB) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// fakeID is a container ID, told apart by n.
func fakeID(n int) string { return fmt.Sprintf("%064x", n) }

func fakeUID(n int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012x", n) }

func textLog(w io.Writer) *slog.Logger { return slog.New(slog.NewTextHandler(w, nil)) }
