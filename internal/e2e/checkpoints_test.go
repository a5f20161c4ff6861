//go:build linux

package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/hybrid-pleg/hybrid-pleg/internal/testruntime"
)

// checkpoints tells when a containerd shows a container as running, and as exited.
//
// Whenever containerd changes a container's status it writes it to a file, renames that
// to its place and then shows it; until then, who asks for the status waits
// (internal/cri/store/container/status.go, UpdateSync, in containerd 2.4). So the moment
// of the rename is that of the change, to the few hundredths of a millisecond that this
// process takes to wake up.
type checkpoints struct {
	dir     string
	watcher *fsnotify.Watcher
	done    chan struct{}

	mu   sync.Mutex
	seen map[string]turns // by the container's directory
	more chan struct{}    // closed and renewed with each change
}

// turns are when a container began to be shown as running and as exited.
type turns struct{ start, exit time.Time }

func watchCheckpoints(b *testing.B, rt *testruntime.Runtime) *checkpoints {
	b.Helper()
	w, err := fsnotify.NewWatcher()
	if err != nil {
		b.Fatal(err)
	}
	c := &checkpoints{
		dir:     filepath.Join(rt.Dir(), "root", "io.containerd.grpc.v1.cri", "containers"),
		watcher: w, done: make(chan struct{}),
		seen: make(map[string]turns), more: make(chan struct{}),
	}
	go c.follow()
	b.Cleanup(func() {
		_ = w.Close()
		<-c.done
	})
	return c
}

// of watches for the changes of a container, which must have been created and not yet
// started.
func (c *checkpoints) of(b *testing.B, id string) {
	b.Helper()
	if err := c.watcher.Add(filepath.Join(c.dir, id)); err != nil {
		b.Fatalf("watch containerd's checkpoints: %v", err)
	}
}

func (c *checkpoints) follow() {
	defer close(c.done)
	for {
		select {
		case e, ok := <-c.watcher.Events:
			if !ok {
				return
			}
			if now := time.Now(); e.Has(fsnotify.Create) && filepath.Base(e.Name) == "status" {
				c.note(e.Name, now)
			}
		case _, ok := <-c.watcher.Errors:
			if !ok {
				return
			}
		}
	}
}

// note takes in that a status was renamed to its place.
func (c *checkpoints) note(file string, now time.Time) {
	data, err := os.ReadFile(file)
	if err != nil {
		return // removed since
	}
	var status struct{ StartedAt, FinishedAt int64 }
	if json.Unmarshal(data, &status) != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	dir := filepath.Dir(file)
	t := c.seen[dir]
	if status.StartedAt > 0 && t.start.IsZero() {
		t.start = now
	}
	if status.FinishedAt > 0 && t.exit.IsZero() {
		t.exit = now
	}
	c.seen[dir] = t
	close(c.more)
	c.more = make(chan struct{})
}

// await waits until a container has been shown as exited.
func (c *checkpoints) await(b *testing.B, id string) (start, exit time.Time) {
	b.Helper()
	timeout := time.After(patience)
	for {
		c.mu.Lock()
		t, more := c.seen[filepath.Join(c.dir, id)], c.more
		c.mu.Unlock()
		if !t.start.IsZero() && !t.exit.IsZero() {
			return t.start, t.exit
		}
		select {
		case <-more:
		case <-timeout:
			b.Fatalf("containerd wrote no checkpoints for the start and end of %s", id)
		}
	}
}
