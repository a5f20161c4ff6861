package merge

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/relist"
)

// seeds returns some that are always tried and one of chance. Tests print the
// seed of a failure.
func seeds(t *testing.T) []uint64 {
	t.Helper()
	chance := rand.Uint64()
	t.Logf("seed of chance: %d", chance)
	return []uint64{1, 2, 3, 4, 5, 6, 7, 8, chance}
}

func newLog(t testing.TB, o Options) *Log {
	t.Helper()
	l, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// change makes a change of that type for the container or sandbox id in pod "p".
func change(typ event.Type, id string) relist.Change {
	return changeIn("p", typ, id)
}

func changeIn(uid string, typ event.Type, id string) relist.Change {
	c := relist.Change{
		Type:      typ,
		Pod:       event.Pod{UID: uid, Namespace: "ns", Name: "pod-" + uid},
		Sandbox:   &event.Sandbox{ID: id},
		CreatedAt: time.Unix(1_700_000_000, 0),
	}
	if k, _, isStep := steps(typ); !isStep || k == kindContainer {
		c.Sandbox = &event.Sandbox{ID: "sandbox-of-" + uid}
		c.Container = &event.Container{ID: id, Name: "main"}
	}
	return c
}

// histories make, from a seed, a function that returns the changes of one
// observation after another.
var histories = map[string]func(seed uint64) func() []relist.Change{
	"regular": regularHistory,
	"unknown": unknownHistory,
	"garbage": garbageHistory,
}

// garbageHistory is anything at all, about few IDs, so that they clash.
func garbageHistory(seed uint64) func() []relist.Change {
	r := rand.New(rand.NewPCG(seed, 0))
	types := append(event.Types(), "", "", "Nonsense")
	states := []event.State{event.StateCreated, event.StateRunning, event.StateExited, event.StateUnknown,
		event.StateNonExistent, "", "paused"}
	// A generation of IDs is left behind now and then, else all are soon removed.
	generation := 0
	return func() []relist.Change {
		if r.IntN(40) == 0 {
			generation++
		}
		id := func() string { return fmt.Sprintf("%d-%d", generation-r.IntN(2), r.IntN(6)) }
		changes := make([]relist.Change, r.IntN(4))
		for i := range changes {
			c := relist.Change{
				Type: types[r.IntN(len(types))],
				From: states[r.IntN(len(states))],
				To:   states[r.IntN(len(states))],
			}
			if uid := r.IntN(5); uid > 0 {
				c.Pod = event.Pod{UID: fmt.Sprint(uid), Namespace: fmt.Sprint("ns", r.IntN(2)), Name: fmt.Sprint("n", r.IntN(2))}
			}
			if r.IntN(8) > 0 {
				c.Sandbox = &event.Sandbox{ID: id()}
			}
			k, _, isStep := steps(c.Type)
			if clean := r.IntN(8) > 0; clean && isStep && k == kindContainer || !clean || !isStep && r.IntN(2) == 0 {
				c.Container = &event.Container{ID: id(), Attempt: r.Uint32N(3)}
			}
			if r.IntN(20) == 0 && c.Container != nil {
				c.Container.ID = ""
			}
			if r.IntN(2) == 0 {
				c.Status = &event.Status{Pid: r.Int()}
			}
			if r.IntN(2) == 0 {
				c.CreatedAt = time.Unix(r.Int64N(100), 0)
			}
			changes[i] = c
		}
		return changes
	}
}

// regularHistory is what relist tells of a node where every state can be read;
// each change of a state is an event.
func regularHistory(seed uint64) func() []relist.Change { return nodeHistory(seed, 0) }

// unknownHistory is the same where the runtime often can't tell a state.
func unknownHistory(seed uint64) func() []relist.Change { return nodeHistory(seed, 4) }

// simItem is a container or sandbox of a simulated node.
type simItem struct {
	pod       event.Pod
	sandbox   *event.Sandbox
	container *event.Container
	createdAt time.Time
	state     event.State
}

// nodeHistory simulates a node: one container or sandbox after another begins,
// goes on or ends, and one time in `unknown` (0: never) its state can't be read.
func nodeHistory(seed uint64, unknown int) func() []relist.Change {
	r := rand.New(rand.NewPCG(seed, 1))
	items := map[string]*simItem{}
	made := 0
	now := time.Unix(1_700_000_000, 0)
	return func() []relist.Change {
		now = now.Add(time.Duration(r.IntN(3)) * time.Second)
		if len(items) < 5 || len(items) < 60 && r.IntN(3) == 0 {
			made++
			uid := fmt.Sprint("pod", r.IntN(12))
			it := &simItem{
				pod:       event.Pod{UID: uid, Namespace: "ns-" + uid[3:4], Name: "name-" + uid},
				sandbox:   &event.Sandbox{ID: fmt.Sprint("s", made)},
				createdAt: now,
				state:     event.StateNonExistent,
			}
			if r.IntN(3) > 0 {
				it.container = &event.Container{ID: fmt.Sprint("c", made), Name: "main", Attempt: uint32(made)}
			}
			items[fmt.Sprint(made)] = it
		}
		keys := slices.Sorted(maps.Keys(items))
		key := keys[r.IntN(len(keys))]
		it := items[key]
		to := []event.State{event.StateCreated, event.StateRunning, event.StateExited, event.StateNonExistent}[r.IntN(4)]
		if unknown > 0 && r.IntN(unknown) == 0 {
			to = event.StateUnknown
		} else if unknown == 0 && to != event.StateNonExistent && rank(to) < rank(it.state) {
			to = it.state // does not go back
		}
		changes := it.observe(to, r)
		if it.state == event.StateNonExistent {
			delete(items, key)
		}
		return changes
	}
}

func rank(s event.State) int {
	return slices.Index([]event.State{event.StateNonExistent, event.StateCreated, event.StateRunning, event.StateExited}, s)
}

// observe moves the item to a state and returns what the diff makes of it.
func (it *simItem) observe(to event.State, r *rand.Rand) []relist.Change {
	from := it.state
	if it.container == nil && to == event.StateCreated {
		to = event.StateRunning // sandboxes are ready or not
	}
	it.state = to
	var types []event.Type
	tell := func(container, sandbox event.Type) {
		if it.container == nil {
			container = sandbox
		}
		if container != "" {
			types = append(types, container)
		}
	}
	switch {
	case from == to:
		if it.container == nil || to == event.StateNonExistent {
			return nil
		}
		types = append(types, event.PodSync)
	case to == event.StateUnknown:
		types = append(types, "")
	case to == event.StateCreated:
		tell(event.ContainerCreated, "")
	case to == event.StateRunning:
		tell(event.ContainerStarted, event.SandboxStarted)
	case to == event.StateExited:
		if from == event.StateNonExistent {
			tell(event.ContainerStarted, event.SandboxStarted)
		}
		tell(event.ContainerDied, event.SandboxDied)
	case to == event.StateNonExistent:
		if from != event.StateExited {
			tell(event.ContainerDied, event.SandboxDied)
		}
		tell(event.ContainerRemoved, event.SandboxRemoved)
	}
	changes := make([]relist.Change, len(types))
	for i, typ := range types {
		changes[i] = relist.Change{Type: typ, Pod: it.pod, Sandbox: it.sandbox, Container: it.container,
			CreatedAt: it.createdAt, From: from, To: to}
		if it.container != nil && r.IntN(2) == 0 {
			changes[i].Status = &event.Status{Pid: r.Int()}
		}
	}
	return changes
}
