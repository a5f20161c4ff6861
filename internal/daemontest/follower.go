package daemontest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/client"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/merge"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Follower follows a daemon through [client.Client.Events] and keeps account of what
// it is told. The zero value has been told nothing. Its methods are safe for
// concurrent use.
type Follower struct {
	mu     sync.Mutex
	since  merge.Token
	states map[string]event.State  // by ID of container or sandbox
	told   map[string][]event.Type // likewise, since the last reset
	// known are the IDs of the events told since the last reset, and of those that its
	// pods stand for; began is the sequence at its end, and passed how far it came in
	// each epoch since.
	known     map[string]bool
	began     uint64
	passed    map[string]uint64
	resetting bool

	resets int
	events int
	bad    error
}

// Follow follows until ctx ends. Every some updates (crashEvery on average; 0: never)
// it drops the stream, as an agent that crashes, and goes on from its token.
func (f *Follower) Follow(ctx context.Context, t testing.TB, c *client.Client, crashEvery int) {
	for ctx.Err() == nil {
		left := -1
		if crashEvery > 0 {
			left = 1 + rand.IntN(2*crashEvery)
		}
		f.mu.Lock()
		since := f.since
		f.mu.Unlock()
		for u, err := range c.Events(ctx, client.WatchOptions{Since: since}) {
			if err != nil {
				if ctx.Err() == nil {
					t.Errorf("a stream ended: %v", err)
				}
				return
			}
			f.take(u)
			if left--; left == 0 {
				break
			}
		}
	}
}

func (f *Follower) take(u client.Update) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.since = u.Token
	switch u.Kind {
	case client.KindReset:
		f.states, f.told = map[string]event.State{}, map[string][]event.Type{}
		f.known, f.passed = map[string]bool{}, map[string]uint64{}
		f.resets++
		f.resetting = true
	case client.KindPod:
		for _, s := range u.Pod.Sandboxes {
			f.item(s.Sandbox.ID, s.State, "", event.SandboxStarted, event.SandboxDied)
		}
		for _, s := range u.Pod.Containers {
			f.item(s.Container.ID, s.State, event.ContainerCreated, event.ContainerStarted, event.ContainerDied)
		}
	case client.KindSynced:
		if f.resetting {
			f.began, f.resetting = u.Token.Sequence, false
		}
	case client.KindEvent:
		f.events++
		f.known[u.Event.ID] = true
		f.event(u.Event)
	}
	if !u.Token.IsZero() {
		f.passed[u.Token.Epoch] = max(f.passed[u.Token.Epoch], u.Token.Sequence)
	}
}

// item takes in a container or sandbox of a reset's pods, which is there because these
// types, up to its state, were told before.
func (f *Follower) item(id string, state event.State, created, started, died event.Type) {
	f.states[id] = state
	steps := map[event.State][]event.Type{
		event.StateCreated: {created}, event.StateRunning: {created, started}, event.StateExited: {created, started, died},
	}
	for _, typ := range steps[state] {
		f.known[id+"/"+string(typ)] = true
	}
}

func (f *Follower) event(e *event.Event) {
	fail := func(format string, args ...any) {
		f.bad = errors.Join(f.bad, fmt.Errorf(e.ID+": "+format, args...))
	}
	if e.Type == event.PodSync {
		return
	}
	id := e.ItemID()
	if slices.Contains(f.told[id], e.Type) {
		fail("told twice")
	}
	f.told[id] = append(f.told[id], e.Type)
	have := f.states[id]
	switch e.Type {
	case event.ContainerCreated:
		if have != "" {
			fail("it was %s", have)
		}
		f.states[id] = event.StateCreated
	case event.ContainerStarted, event.SandboxStarted:
		if have != "" && have != event.StateCreated {
			fail("it was %s", have)
		}
		f.states[id] = event.StateRunning
	case event.ContainerDied, event.SandboxDied:
		if have != event.StateRunning {
			fail("it was %q", have)
		}
		f.states[id] = event.StateExited
	case event.ContainerRemoved, event.SandboxRemoved:
		if have != event.StateExited {
			fail("it was %q", have)
		}
		delete(f.states, id)
	}
}

// Events is how many events were told.
func (f *Follower) Events() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.events
}

// Resets is how often it had to begin anew; the first time counts.
func (f *Follower) Resets() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.resets
}

// Told returns the types told of a container or sandbox since the last reset, in
// order. A PodSync is none of them.
func (f *Follower) Told(id string) []event.Type {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.told[id])
}

// Passed is how far it came among an epoch's events since the last reset: it must know
// those up to that sequence.
func (f *Follower) Passed(epoch string) uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.passed[epoch]
}

// Lacks says which of a daemon's events since the last reset it was not told. A PodSync
// is none of them: one that a killed daemon told lives on in what the next one tells.
func (f *Follower) Lacks(told []event.Event) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var lacks []error
	for i := range told {
		if e := &told[i]; e.Type != event.PodSync && e.Sequence > f.began && !f.known[e.ID] {
			lacks = append(lacks, fmt.Errorf("%s-%d, %s, was not told", e.Epoch, e.Sequence, e.ID))
		}
	}
	return errors.Join(lacks...)
}

// Problem is what was told twice, or in the wrong order.
func (f *Follower) Problem() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.bad
}

// Lister is a runtime that can be compared with.
type Lister interface {
	ListPodSandbox(ctx context.Context, filter *runtimeapi.PodSandboxFilter) ([]*runtimeapi.PodSandbox, error)
	ListContainers(ctx context.Context, filter *runtimeapi.ContainerFilter) ([]*runtimeapi.Container, error)
}

// Agrees compares what the events add up to with what the runtime has.
func (f *Follower) Agrees(ctx context.Context, rt Lister) error {
	sandboxes, err := rt.ListPodSandbox(ctx, nil)
	if err != nil {
		return err
	}
	containers, err := rt.ListContainers(ctx, nil)
	if err != nil {
		return err
	}
	want := map[string]event.State{}
	for _, s := range sandboxes {
		want[s.Id] = event.StateRunning
		if s.State != runtimeapi.PodSandboxState_SANDBOX_READY {
			want[s.Id] = event.StateExited
		}
	}
	for _, c := range containers {
		want[c.Id] = map[runtimeapi.ContainerState]event.State{
			runtimeapi.ContainerState_CONTAINER_CREATED: event.StateCreated,
			runtimeapi.ContainerState_CONTAINER_RUNNING: event.StateRunning,
			runtimeapi.ContainerState_CONTAINER_EXITED:  event.StateExited,
			runtimeapi.ContainerState_CONTAINER_UNKNOWN: event.StateUnknown,
		}[c.State]
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if !maps.Equal(f.states, want) {
		return fmt.Errorf("told are %d items, there are %d, or their states differ", len(f.states), len(want))
	}
	return nil
}
