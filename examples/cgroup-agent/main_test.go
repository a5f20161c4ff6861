package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/internal/daemontest"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/merge"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/relist"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestAgent lets the agent run, be away, and find a daemon that forgot everything.
func TestAgent(t *testing.T) {
	dir, path := t.TempDir(), daemontest.SocketPath(t)
	b := daemontest.New(t, merge.Options{})
	stop := daemontest.Start(t, path, b)
	started := func(id string, pid int) {
		b.Publish([]relist.Change{{
			Type: event.ContainerStarted, To: event.StateRunning,
			Pod:       event.Pod{UID: "u", Namespace: "shop", Name: "web"},
			Container: &event.Container{ID: id, Name: "api"},
			Status:    &event.Status{Pid: pid, CgroupPath: "/kubepods/" + id, CgroupID: 42},
		}})
	}
	started("c1", 101)
	end := startAgent(t, path, dir)
	waitFiles(t, dir, "c1")
	data, err := os.ReadFile(filepath.Join(dir, "containers", "c1"))
	if want := "pod=shop/web container=api pid=101 cgroup=/kubepods/c1 cgroupid=42\n"; err != nil || string(data) != want {
		t.Errorf("%q, %v, want %q", data, err, want)
	}
	started("c2", 102)
	waitFiles(t, dir, "c1 c2")
	b.Tell(event.ContainerDied, "u", "c1")
	waitFiles(t, dir, "c2")
	end()

	b.Tell(event.ContainerDied, "u", "c2")
	started("c3", 103)
	end = startAgent(t, path, dir)
	waitFiles(t, dir, "c3")
	end()

	stop()
	b = daemontest.New(t, merge.Options{})
	daemontest.Start(t, path, b)
	started("c4", 104)
	end = startAgent(t, path, dir)
	waitFiles(t, dir, "c4")
	end()
}

func startAgent(t *testing.T, path, dir string) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, path, dir) }()
	return func() {
		t.Helper()
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("the agent ended with %v", err)
		}
	}
}

// waitFiles waits until there are notes of just these containers.
func waitFiles(t *testing.T, dir, want string) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	deadline := time.After(time.Minute)
	for {
		entries, _ := os.ReadDir(filepath.Join(dir, "containers"))
		var names []string
		for _, e := range entries {
			names = append(names, e.Name())
		}
		if strings.Join(names, " ") == want {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("there are notes of %v, want %s", names, want)
		}
	}
}
