package client

import (
	"errors"
	"fmt"
	"slices"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/merge"
)

// caller is who deals with updates, and judges them. It keeps the token together with
// what it made of the updates.
type caller struct {
	since  merge.Token
	pods   map[string]event.State // by item: what it was last told
	done   map[string]bool        // by event ID, since the last reset
	state  *State
	synced bool
	resets int
	events int
	// inferred are the events that no daemon told.
	inferred int
	// before are the events that the last reset's snapshot stands for, by ID, and their
	// places.
	before map[string]bool
	old    map[merge.Token]bool
	began  uint64
}

func (c *caller) deal(u Update) error {
	c.state.Apply(u)
	switch u.Kind {
	case KindReset:
		c.pods, c.done, c.synced = map[string]event.State{}, map[string]bool{}, false
		c.resets++
	case KindPod:
		if c.synced {
			return errors.New("a pod after the synced")
		}
		for _, s := range u.Pod.Sandboxes {
			c.pods[s.Sandbox.ID] = s.State
		}
		for _, s := range u.Pod.Containers {
			c.pods[s.Container.ID] = s.State
		}
	case KindSynced:
		if c.synced && c.since.Epoch == "" {
			return errors.New("synced twice")
		}
		c.synced = true
	case KindEvent:
		if err := c.event(u.Event); err != nil {
			return err
		}
	}
	if u.Token.IsZero() != (u.Kind == KindReset || u.Kind == KindPod) {
		return fmt.Errorf("a %s with token %q", u.Kind, u.Token)
	}
	c.since = u.Token
	return nil
}

func (c *caller) event(e *event.Event) error {
	c.events++
	if c.done[e.ID] {
		return fmt.Errorf("%s is told twice", e.ID)
	}
	c.done[e.ID] = true
	if c.old[merge.Token{Epoch: e.Epoch, Sequence: e.Sequence}] {
		return fmt.Errorf("%s happened before the beginning", e.ID)
	}
	id := e.Sandbox.ID
	if e.Container != nil {
		id = e.Container.ID
	}
	if c.before[id+"/"+string(event.ContainerRemoved)] || c.before[id+"/"+string(event.SandboxRemoved)] {
		return fmt.Errorf("%s is about one that was gone before the beginning", e.ID)
	}
	if e.Detection.FoundBy == FoundBySnapshot {
		c.inferred++
		if e.Sequence != 0 || e.Epoch == "" {
			return fmt.Errorf("%s was made of a snapshot and is %s-%d", e.ID, e.Epoch, e.Sequence)
		}
	}
	have, known := c.pods[id]
	rank := []event.State{event.StateCreated, event.StateRunning, event.StateExited}
	var to event.State
	switch e.Type {
	case event.PodSync:
		if !known {
			return fmt.Errorf("%s is about what is not there", e.ID)
		}
		return nil
	case event.ContainerRemoved, event.SandboxRemoved:
		if have != event.StateExited {
			return fmt.Errorf("%s comes when it is %q", e.ID, have)
		}
		delete(c.pods, id)
		return nil
	case event.ContainerCreated:
		to = event.StateCreated
	case event.ContainerStarted, event.SandboxStarted:
		to = event.StateRunning
	case event.ContainerDied, event.SandboxDied:
		to = event.StateExited
		if have != event.StateRunning {
			return fmt.Errorf("%s comes when it is %q", e.ID, have)
		}
	}
	if known && slices.Index(rank, to) <= slices.Index(rank, have) {
		return fmt.Errorf("%s comes when it is %q", e.ID, have)
	}
	c.pods[id] = to
	return nil
}

// agree compares what the caller knows with what there is.
func (c *caller) agree(pods []event.PodStatus) error {
	want := map[string]event.State{}
	for _, p := range pods {
		for _, s := range p.Sandboxes {
			want[s.Sandbox.ID] = s.State
		}
		for _, s := range p.Containers {
			want[s.Container.ID] = s.State
		}
	}
	for id, state := range want {
		if c.pods[id] != state {
			return fmt.Errorf("%s is %s, the caller has %q", id, state, c.pods[id])
		}
	}
	for id := range c.pods {
		if want[id] == "" {
			return fmt.Errorf("%s is gone, the caller was not told", id)
		}
	}
	return nil
}

// begin takes in what the daemon had told when the caller was reset.
func (c *caller) begin(told []*event.Event) {
	c.before, c.old, c.began = map[string]bool{}, map[merge.Token]bool{}, c.since.Sequence
	for _, e := range told {
		if e.Sequence <= c.began {
			c.before[e.ID] = true
			c.old[merge.Token{Epoch: e.Epoch, Sequence: e.Sequence}] = true
		}
	}
}

// complete wants the caller to have been told all that a daemon told since the caller's
// beginning, of what came after that.
func (c *caller) complete(told []*event.Event) error {
	early := map[string]bool{}
	for _, e := range told {
		if e.Sequence <= c.began {
			early[e.ItemID()] = true
		}
	}
	for _, e := range told {
		switch {
		case early[e.ItemID()], c.before[e.ID], c.done[e.ID]:
		case e.Type == event.PodSync && c.done[e.Container.ID+"/"+string(event.ContainerRemoved)]:
			// A daemon that was killed since had told the removal.
		default:
			return fmt.Errorf("%s, %s-%d, was not told", e.ID, e.Epoch, e.Sequence)
		}
	}
	return nil
}
