package e2e

import (
	"fmt"
	"slices"
	"testing"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
)

// podWant is what must be told of a pod by the time it is removed.
type podWant struct {
	uid, namespace, name string
	sandboxes            int
	containers           []containerWant
}

type containerWant struct {
	id, name string
	attempt  uint32
	exit     int32 // or anyExit
	// hasty: the container may be removed before its exit code can be read, or its
	// start seen; or even before it has ended, and is then killed.
	hasty bool
}

// killed is the code of a container that SIGKILL ended.
const killed = 128 + 9

// anyExit is the code of a container that ended while nobody could take its code.
const anyExit = -1

// removed reports whether the last sandbox of the pod is gone.
func (w podWant) removed(events []event.Event) bool {
	n := 0
	for _, e := range events {
		if e.Pod.UID == w.uid && e.Type == event.SandboxRemoved {
			n++
		}
	}
	return n >= w.sandboxes
}

// check compares the events of one pod with what must have been told: each
// container started, died with its code, and removed, each sandbox likewise, each
// once, and nothing else. ContainerCreated is left out of the comparison: a
// container is created for a moment only, and not every trigger makes one look
// just then.
func (w podWant) check(t testing.TB, arm string, events []event.Event) {
	t.Helper()
	byItem := make(map[string][]event.Event)
	synced := make(map[string]*event.Status) // details that came after their event
	for _, e := range events {
		if e.Pod != (event.Pod{UID: w.uid, Namespace: w.namespace, Name: w.name}) {
			t.Errorf("%s: %s told of pod %+v, want %s/%s %s", arm, e.Type, e.Pod, w.namespace, w.name, w.uid)
		}
		switch {
		case e.Type == event.ContainerCreated:
		case e.Type == event.PodSync:
			if e.Container != nil {
				synced[e.Container.ID] = e.Status
			}
		case e.Container != nil:
			byItem[e.Container.ID] = append(byItem[e.Container.ID], e)
		default:
			byItem["sandbox "+e.Sandbox.ID] = append(byItem["sandbox "+e.Sandbox.ID], e)
		}
	}
	if got := len(byItem); got != w.sandboxes+len(w.containers) {
		t.Errorf("%s: events of %d containers and sandboxes, want %d and %d:\n%s", arm, got, len(w.containers), w.sandboxes, lines(events))
	}
	for item, told := range byItem {
		if len(item) > 8 && item[:8] == "sandbox " {
			if want := []event.Type{event.SandboxStarted, event.SandboxDied, event.SandboxRemoved}; !slices.Equal(types(told), want) {
				t.Errorf("%s: %s: told %v, want %v", arm, item, types(told), want)
			}
		}
	}
	for _, c := range w.containers {
		if err := c.check(byItem[c.id], synced[c.id]); err != nil {
			t.Errorf("%s: container %s#%d: %v; the pod's events:\n%s", arm, c.name, c.attempt, err, lines(events))
		}
	}
}

// check compares what was told of a container. Its details may have come late, as
// synced: two processors for 200 containers at once are few.
func (w containerWant) check(told []event.Event, synced *event.Status) error {
	if want := []event.Type{event.ContainerStarted, event.ContainerDied, event.ContainerRemoved}; !slices.Equal(types(told), want) {
		return fmt.Errorf("told %v, want %v", types(told), want)
	}
	for _, e := range told {
		if e.Container.Name != w.name || e.Container.Attempt != w.attempt {
			return fmt.Errorf("%s told of %s#%d", e.Type, e.Container.Name, e.Container.Attempt)
		}
	}
	died, status := told[1], told[1].Status
	if died.StatusMissing == event.StatusLate {
		status = synced
	}
	switch {
	case w.hasty && died.StatusMissing == event.StatusGone:
	case status == nil || status.ExitCode == nil:
		return fmt.Errorf("died without an exit code (%s)", died.StatusMissing)
	case w.hasty && *status.ExitCode == killed:
	case w.exit != anyExit && *status.ExitCode != w.exit:
		return fmt.Errorf("died with exit code %d, want %d", *status.ExitCode, w.exit)
	}
	return nil
}

func types(events []event.Event) []event.Type {
	out := make([]event.Type, len(events))
	for i, e := range events {
		out[i] = e.Type
	}
	return out
}
