//go:build linux

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/internal/daemontest"
	"github.com/hybrid-pleg/hybrid-pleg/internal/testruntime"
	"github.com/hybrid-pleg/hybrid-pleg/internal/testruntime/runtimetest"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/client"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/merge"
)

const (
	daemonKills  = 50
	runtimeKills = 50
)

// TestDaemonKilled kills the daemon at random points while containers come and go. A
// client that goes on where it was must be told each change once, none missing.
func TestDaemonKilled(t *testing.T) {
	rt := runtimetest.Start(t, testruntime.Options{})
	f := newFollowed(t, rt)
	c := startChurn(t, rt, f.follower)
	for i := range daemonKills {
		kept := f.state(t)
		d := f.startDaemon(t)
		if i%4 == 0 {
			// Wherever it is by then: loading the probe, listing for the first time.
			moment(time.Duration(rand.IntN(800)) * time.Millisecond)
		} else {
			f.moreEvents(t, 1+rand.IntN(10))
		}
		_ = d.Process.Kill()
		_ = d.Wait()
		if i%4 == 2 {
			f.setState(t, kept) // as if it had not written anything yet
		}
	}
	f.startDaemon(t)
	f.conclude(t, rt, c)
}

// TestRuntimeKilled does the same to the runtime, while the daemon stays.
func TestRuntimeKilled(t *testing.T) {
	rt := runtimetest.Start(t, testruntime.Options{})
	f := newFollowed(t, rt)
	f.startDaemon(t)
	c := startChurn(t, rt, f.follower)
	for range runtimeKills {
		// Enough for some containers to be made: that takes several calls each.
		f.moreEvents(t, 15+rand.IntN(15))
		rt.Kill()
		moment(time.Duration(rand.IntN(300)) * time.Millisecond)
		if err := rt.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	f.conclude(t, rt, c)
}

// moment lets some time pass: where a process is killed is to be left to chance.
func moment(d time.Duration) { <-time.After(d) }

// followed is a daemon that keeps state, however often it is started, and who follows
// it.
type followed struct {
	program, dir, endpoint string
	client                 *client.Client
	follower               *daemontest.Follower
	agent                  *daemontest.Follower // restarted itself every now and then
	outputs                []string             // files with what each daemon wrote
}

func newFollowed(t *testing.T, rt *testruntime.Runtime) *followed {
	t.Helper()
	dir, err := os.MkdirTemp("", "hp") // short, for the socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	f := &followed{
		program: daemonBinary(t), dir: dir, endpoint: rt.Endpoint(),
		follower: &daemontest.Follower{}, agent: &daemontest.Follower{},
	}
	c, err := client.New(client.Options{Address: filepath.Join(dir, "s")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	f.client = c
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var followers sync.WaitGroup
	followers.Go(func() { f.follower.Follow(ctx, t, c, 0) })
	followers.Go(func() { f.agent.Follow(ctx, t, c, 30) })
	t.Cleanup(followers.Wait)
	t.Cleanup(stop)
	return f
}

func (f *followed) startDaemon(t *testing.T) *exec.Cmd {
	t.Helper()
	log := &strings.Builder{}
	output, err := os.Create(filepath.Join(f.dir, fmt.Sprint("output", len(f.outputs))))
	if err != nil {
		t.Fatal(err)
	}
	defer output.Close()
	f.outputs = append(f.outputs, output.Name())
	d := exec.Command(f.program, "run", "--runtime-endpoint", f.endpoint, "--http", "", "--output", "ndjson",
		"--listen", "unix://"+filepath.Join(f.dir, "s"), "--state-dir", filepath.Join(f.dir, "state"))
	d.Stdout, d.Stderr = output, log
	if err := d.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if d.ProcessState == nil {
			_ = d.Process.Kill()
			_ = d.Wait()
		}
		if t.Failed() {
			t.Logf("the log of a daemon:\n%s", log)
		}
	})
	return d
}

// state returns what is in the daemon's state directory, while none runs; nil where
// nothing is.
func (f *followed) state(t *testing.T) []byte {
	t.Helper()
	data, err := os.ReadFile(f.stateFile())
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return data
}

func (f *followed) setState(t *testing.T, data []byte) {
	t.Helper()
	if err := os.WriteFile(f.stateFile(), data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func (f *followed) stateFile() string { return filepath.Join(f.dir, "state", "state.db") }

func (f *followed) moreEvents(t *testing.T, n int) {
	t.Helper()
	want := f.follower.Events() + n
	waitFor(t, "more events", func() error {
		if have := f.follower.Events(); have < want {
			return fmt.Errorf("%d of %d", have, want)
		}
		return nil
	})
}

// written returns what the daemons wrote, each up to where it was killed.
func (f *followed) written(t *testing.T) []event.Event {
	t.Helper()
	var events []event.Event
	for _, path := range f.outputs {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(data) {
			if !bytes.HasSuffix(line, []byte("\n")) {
				break // it was killed while it wrote
			}
			var e event.Event
			if err := json.Unmarshal(line, &e); err != nil {
				t.Fatalf("%s: %v: %s", path, err, line)
			}
			events = append(events, e)
		}
	}
	return events
}

// journal returns what the daemon that runs has in its journal, which is what was kept
// of all before it, too.
func (f *followed) journal(t *testing.T) []event.Event {
	t.Helper()
	info, err := f.client.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	oldest, err := merge.ParseToken(info.OldestToken)
	if err != nil {
		t.Fatal(err)
	}
	var events []event.Event
	for u, err := range f.client.Events(t.Context(), client.WatchOptions{Since: oldest}) {
		switch {
		case err != nil:
			t.Fatal(err)
		case u.Kind == client.KindSynced:
			return events
		case u.Kind == client.KindEvent:
			events = append(events, *u.Event)
		}
	}
	panic("not reached: a stream ends with an error")
}

// wantComplete wants the stream that lasts to have been told all that daemons told: what
// a daemon wrote itself, as far as the stream came with it, and what the journal still
// has, of daemons that it never reached as well.
func (f *followed) wantComplete(t *testing.T) {
	t.Helper()
	written, journal := f.written(t), f.journal(t)
	reached := slices.DeleteFunc(slices.Clone(written), func(e event.Event) bool { return e.Sequence > f.follower.Passed(e.Epoch) })
	if err := f.follower.Lacks(reached); err != nil {
		t.Errorf("of %d events that daemons wrote, the stream that lasts lacks:\n%v", len(reached), err)
	}
	waitFor(t, "the stream that lasts to know all of the journal", func() error { return f.follower.Lacks(journal) })
	t.Logf("daemons wrote %d events, the stream that lasts reached %d of these, and the %d in the journal", len(written), len(reached), len(journal))
	if len(reached) < 200 {
		t.Error("these were too few to judge by")
	}
}

// conclude ends the churn and judges what was told.
func (f *followed) conclude(t *testing.T, rt *testruntime.Runtime, c *churn) {
	t.Helper()
	c.end()
	for name, follower := range map[string]*daemontest.Follower{"the stream that lasts": f.follower, "the agent": f.agent} {
		waitFor(t, name+" to know all", func() error { return follower.Agrees(t.Context(), rt.Client()) })
		if problem := follower.Problem(); problem != nil {
			t.Errorf("%s: %v", name, problem)
		}
	}
	f.wantComplete(t)
	if n := f.follower.Resets(); n != 1 {
		t.Errorf("the stream that lasts was reset %d times", n)
	}
	kept := 0
	for _, m := range c.made {
		told := slices.DeleteFunc(f.follower.Told(m.id), func(typ event.Type) bool { return typ == event.ContainerCreated })
		whole := []event.Type{event.ContainerStarted, event.ContainerDied, event.ContainerRemoved}
		if m.kept {
			kept++
		} else if len(told) == 0 {
			continue // it came and went while nobody looked; see wantComplete
		}
		if !slices.Equal(told, whole) {
			t.Errorf("of %s (kept until its end was told: %v), %v was told", m.id, m.kept, told)
		}
	}
	t.Logf("%d containers came and went, %d of them were there until their end was told; %d events", len(c.made), kept, f.follower.Events())
	if kept < 20 {
		t.Errorf("there were only %d containers to judge by", kept)
	}
}

// churn is containers that come and go, whatever becomes of the daemon and the runtime.
type churn struct {
	rt       *testruntime.Runtime
	follower *daemontest.Follower
	stop     context.CancelFunc
	workers  sync.WaitGroup
	end      func()

	mu   sync.Mutex
	made []made
}

// made is a container that came and went.
type made struct {
	id   string
	kept bool // until its end was told, and removed then
}

func startChurn(t *testing.T, rt *testruntime.Runtime, f *daemontest.Follower) *churn {
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	c := &churn{rt: rt, follower: f, stop: stop}
	for range 3 {
		c.workers.Go(func() {
			for ctx.Err() == nil {
				c.pod(ctx, t)
			}
		})
	}
	c.end = sync.OnceFunc(func() {
		stop()
		c.workers.Wait()
	})
	t.Cleanup(c.end)
	return c
}

// pod is one pod's life. What a runtime that is killed meanwhile leaves behind stays
// there, and is to be told as it is.
func (c *churn) pod(ctx context.Context, t *testing.T) {
	p, err := c.rt.RunPod(ctx, testruntime.PodSpec{})
	if err != nil {
		c.hold(ctx)
		return
	}
	for attempt := range uint32(1 + rand.IntN(8)) {
		if ctx.Err() != nil {
			break
		}
		life := time.Duration(rand.IntN(150)) * time.Millisecond
		m, err := p.RunContainer(ctx, testruntime.ContainerSpec{Attempt: attempt, Args: []string{"exit", "0", life.String()}})
		if err != nil {
			c.hold(ctx)
			continue
		}
		kept := rand.IntN(3) > 0
		c.container(t, m, kept)
	}
	c.insist(t, "remove pod "+p.Name, p.Remove)
}

// container waits for a container's end and removes it.
func (c *churn) container(t *testing.T, m *testruntime.Container, kept bool) {
	c.insist(t, "wait for the end of "+m.ID, func(ctx context.Context) error { _, err := m.Wait(ctx); return err })
	if kept {
		c.insist(t, "be told of the end of "+m.ID, func(context.Context) error {
			if !slices.Contains(c.follower.Told(m.ID), event.ContainerDied) {
				return errors.New("only " + fmt.Sprint(c.follower.Told(m.ID)))
			}
			return nil
		})
	}
	c.insist(t, "remove "+m.ID, m.Remove)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.made = append(c.made, made{id: m.ID, kept: kept})
}

// insist does something until it succeeds.
func (c *churn) insist(t *testing.T, what string, do func(context.Context) error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
	defer cancel()
	for {
		err := do(ctx)
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			t.Errorf("could not %s within %s: %v", what, patience, err)
			return
		}
		c.hold(ctx)
	}
}

// hold waits a little before what failed is tried again.
func (c *churn) hold(ctx context.Context) {
	select {
	case <-time.After(10 * time.Millisecond):
	case <-ctx.Done():
	}
}
