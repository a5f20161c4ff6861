// Package daemontest serves a log that a test writes, as a daemon does: for tests of
// what talks to one.
package daemontest

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/internal/serve"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/merge"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/relist"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/trigger"
)

// Backend is what a daemon serves: a log that the test writes.
type Backend struct {
	*merge.Log

	mu      sync.Mutex
	healthy error
}

// New returns a backend that is healthy and has told nothing.
func New(t testing.TB, o merge.Options) *Backend {
	t.Helper()
	l, err := merge.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return &Backend{Log: l}
}

// Kept returns what of the log would now be in a state directory, for a backend that
// goes on from there after this one was killed.
func (b *Backend) Kept(t testing.TB) *merge.State {
	t.Helper()
	rec, err := b.Record()
	if err != nil {
		t.Fatal(err)
	}
	defer rec.Close()
	s := rec.Export()
	return &s
}

// Healthy implements [serve.Backend].
func (b *Backend) Healthy() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.healthy
}

// SetHealthy sets what Healthy returns.
func (b *Backend) SetHealthy(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.healthy = err
}

// Sources implements [serve.Backend].
func (b *Backend) Sources() []trigger.SourceStatus {
	return []trigger.SourceStatus{{Name: trigger.SourceCRI, Up: true}}
}

// RelistPeriod implements [serve.Backend].
func (b *Backend) RelistPeriod() time.Duration { return 10 * time.Second }

// Runtime implements [serve.Backend].
func (b *Backend) Runtime() serve.Runtime { return serve.Runtime{Endpoint: "unix:///runtime.sock"} }

// Tell publishes an event of a container, or of a sandbox if the type is one's.
func (b *Backend) Tell(typ event.Type, pod, id string) {
	c := relist.Change{
		Type:    typ,
		Pod:     event.Pod{UID: pod, Namespace: "ns", Name: "name-" + pod},
		Sandbox: &event.Sandbox{ID: id},
	}
	switch typ {
	case event.SandboxStarted, event.SandboxDied, event.SandboxRemoved:
	default:
		c.Sandbox = &event.Sandbox{ID: "sandbox-of-" + pod}
		c.Container = &event.Container{ID: id, Name: "main"}
	}
	b.Publish([]relist.Change{c})
}

// SocketPath returns a path that is short enough for a socket, wherever the test's own directory is.
func SocketPath(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "hp")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return filepath.Join(dir, "s")
}

// Start serves a backend at a path; stop ends the server, and may be called twice.
func Start(t testing.TB, path string, b *Backend) (stop func()) {
	t.Helper()
	s, err := serve.New(serve.Options{Backend: b, Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	l, err := serve.ListenSocket(t.Context(), path, -1)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx, serve.Listeners{Local: l}) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}
