package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/internal/daemontest"
	"github.com/hybrid-pleg/hybrid-pleg/internal/embedded"
	"github.com/hybrid-pleg/hybrid-pleg/internal/embedded/workload"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/client"
)

// kills is how often TestKilled kills the daemon.
const kills = 8

// TestKilled kills the daemon again and again while much is going on, and follows it
// all the while: with a stream that lasts, and as an agent that is restarted itself
// and keeps its token. No change may come twice, and at the end what was told must add
// up to what the runtime has. The one that lasts must never be reset.
func TestKilled(t *testing.T) {
	for name, state := range map[string]bool{"with its state": true, "without": false} {
		t.Run(name, func(t *testing.T) { killed(t, state) })
	}
}

func killed(t *testing.T, state bool) {
	dir, err := os.MkdirTemp("", "hp") // short, for the sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	rt := embedded.New(embedded.Options{})
	t.Cleanup(func() { rt.Close() })
	server, err := embedded.Serve(t.Context(), rt, filepath.Join(dir, "cri"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	playing, stopPlay := context.WithCancel(t.Context())
	played := make(chan error, 1)
	go func() { played <- workload.Run(playing, rt, workload.Options{Pods: 20, Rate: 200}) }()

	args := []string{
		"run", "--runtime-endpoint", "unix://" + filepath.Join(dir, "cri"), "--triggers", "cri", "--relist-period", "200ms",
		"--http", "", "--output", "none", "--log-level", "error", "--listen", "unix://" + filepath.Join(dir, "s"),
	}
	if state {
		args = append(args, "--state-dir", filepath.Join(dir, "state"))
	}
	c, err := client.New(client.Options{Address: filepath.Join(dir, "s")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })

	var lasting, agent daemontest.Follower
	ctx, stop := context.WithCancel(t.Context())
	var followers sync.WaitGroup
	followers.Go(func() { lasting.Follow(ctx, t, c, 0) })
	followers.Go(func() { agent.Follow(ctx, t, c, 40) })
	// Before what they use goes, however the test ends.
	t.Cleanup(followers.Wait)
	t.Cleanup(stop)

	for range kills {
		d := startDaemon(t, dir, args)
		want := lasting.Events() + 5 + rand.IntN(100)
		wait(t, "events come", func() error {
			if have := lasting.Events(); have < want {
				return fmt.Errorf("there are %d, want %d", have, want)
			}
			return nil
		})
		_ = d.Process.Kill()
		_ = d.Wait()
	}
	startDaemon(t, dir, args)
	stopPlay()
	if err := <-played; err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	for name, f := range map[string]*daemontest.Follower{"the stream that lasts": &lasting, "the agent": &agent} {
		wait(t, name+" has been told all", func() error { return f.Agrees(t.Context(), rt.Client()) })
		if problem := f.Problem(); problem != nil {
			t.Errorf("%s: %v", name, problem)
		}
	}
	if n := lasting.Resets(); n != 1 {
		t.Errorf("the stream that lasts was reset %d times", n)
	}
}

// startDaemon starts this test's program as hybrid-pleg.
func startDaemon(t *testing.T, dir string, args []string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "hybrid-pleg") // by which testscript knows it
	if err := os.Symlink(self, name); err != nil && !errors.Is(err, os.ErrExist) {
		t.Fatal(err)
	}
	d := exec.Command(name, args...)
	d.Stderr = os.Stderr
	if err := d.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if d.ProcessState == nil {
			_ = d.Process.Kill()
			_ = d.Wait()
		}
	})
	return d
}

func wait(t *testing.T, what string, ok func() error) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(patience)
	for {
		err := ok()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("after %s it is not so that %s: %v", patience, what, err)
		}
	}
}
