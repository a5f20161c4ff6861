package merge

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
)

// fold is what a client makes of a snapshot and the events after it, by the rules
// in the package's documentation and nothing else.
type fold struct {
	pods       map[string]event.Pod // by UID
	containers map[string]foldItem
	sandboxes  map[string]foldItem
}

// foldItem leaves out CreatedAt, which events do not carry.
type foldItem struct {
	PodUID    string
	Container event.Container
	Sandbox   event.Sandbox // of a container: the ID only
	State     event.State
	Status    *event.Status

	// untold: the state is from a snapshot, and no event led to it.
	untold bool
}

func newFold(pods ...event.PodStatus) *fold {
	f := &fold{pods: map[string]event.Pod{}, containers: map[string]foldItem{}, sandboxes: map[string]foldItem{}}
	for i := range pods {
		f.addPod(&pods[i])
	}
	return f
}

func (f *fold) addPod(p *event.PodStatus) {
	f.pods[p.Pod.UID] = p.Pod
	for _, s := range p.Sandboxes {
		f.sandboxes[s.Sandbox.ID] = foldItem{PodUID: p.Pod.UID, Sandbox: s.Sandbox, State: s.State}
	}
	for _, c := range p.Containers {
		f.containers[c.Container.ID] = foldItem{PodUID: p.Pod.UID, Container: c.Container,
			Sandbox: event.Sandbox{ID: c.SandboxID}, State: c.State, Status: c.Status}
	}
}

func (f *fold) apply(e *event.Event) {
	items := f.containers
	var id string
	switch {
	case e.Container != nil:
		id = e.Container.ID
	case e.Type == event.PodSync:
		return // about the pod as a whole
	default:
		items, id = f.sandboxes, e.Sandbox.ID
	}
	it, known := items[id]
	before := it.PodUID
	if !known {
		it.State = event.StateUnknown
	}
	switch e.Type {
	case event.ContainerRemoved, event.SandboxRemoved:
		delete(items, id)
		f.dropEmpty(before)
		return
	case event.ContainerCreated:
		it.State, it.untold = event.StateCreated, false
	case event.ContainerStarted, event.SandboxStarted:
		it.State, it.untold = event.StateRunning, false
	case event.ContainerDied, event.SandboxDied:
		it.State, it.untold = event.StateExited, false
	}
	it.PodUID = e.Pod.UID
	it.Sandbox = event.Sandbox{}
	if e.Sandbox != nil {
		it.Sandbox = *e.Sandbox
	}
	if e.Container != nil {
		it.Container = *e.Container
		it.Sandbox.Attempt = 0
		if e.Status != nil {
			it.Status = e.Status
		}
	}
	items[id] = it
	f.pods[e.Pod.UID] = e.Pod
	if known {
		f.dropEmpty(before)
	}
}

func (f *fold) dropEmpty(uid string) {
	for _, items := range []map[string]foldItem{f.containers, f.sandboxes} {
		for _, it := range items {
			if it.PodUID == uid {
				return
			}
		}
	}
	delete(f.pods, uid)
}

// newFoldOf is newFold for the log as it stands, with what no event led to marked.
func newFoldOf(l *Log) *fold {
	f := newFold(l.Snapshot().Pods...)
	mark := func(items map[string]foldItem, model map[string]*item) {
		for id, it := range items {
			it.untold = model[id].seen != model[id].told.state()
			items[id] = it
		}
	}
	mark(f.containers, l.model.containers)
	mark(f.sandboxes, l.model.sandboxes)
	return f
}

// diff says where f differs from a snapshot of the log, which must not move in
// the meantime. An item in a state that was not told, be it in f or in the log,
// may differ in that state, and one of which nothing was told may be missing.
func (f *fold) diff(l *Log) error {
	want := newFoldOf(l)
	for kindName, pair := range map[string]struct {
		got, want map[string]foldItem
		items     map[string]*item
	}{
		"container": {f.containers, want.containers, l.model.containers},
		"sandbox":   {f.sandboxes, want.sandboxes, l.model.sandboxes},
	} {
		for id := range pair.got {
			if _, ok := pair.want[id]; !ok {
				return fmt.Errorf("%s %s: is gone from the snapshot, but no event said so", kindName, id)
			}
		}
		for id, w := range pair.want {
			g, ok := pair.got[id]
			if !ok && pair.items[id].told == 0 {
				continue
			}
			if g.untold || w.untold {
				g.State, g.untold = w.State, w.untold
			}
			if !ok || !reflect.DeepEqual(g, w) {
				return fmt.Errorf("%s %s: the events add up to %+v, the snapshot has %+v", kindName, id, g, w)
			}
		}
	}
	for uid, p := range want.pods {
		if got, ok := f.pods[uid]; ok && got != p {
			return fmt.Errorf("pod %s: the events add up to %+v, the snapshot has %+v", uid, got, p)
		}
	}
	return nil
}

// equal is diff for a history that tells every state.
func (f *fold) equal(s Snapshot) error {
	want := newFold(s.Pods...)
	if !reflect.DeepEqual(f, want) {
		return fmt.Errorf("the events add up to %s, the snapshot at %s has %s", f, s.Token, want)
	}
	return nil
}

func (f *fold) String() string {
	return fmt.Sprint(slices.Sorted(maps.Keys(f.pods)), slices.Sorted(maps.Keys(f.containers)), slices.Sorted(maps.Keys(f.sandboxes)))
}

// TestSnapshotAndEventsAddUp takes a snapshot at each of many points, folds all
// later events into each, and compares them with the snapshot at the end and at
// points between.
func TestSnapshotAndEventsAddUp(t *testing.T) {
	for name, history := range histories {
		t.Run(name, func(t *testing.T) {
			for _, seed := range seeds(t) {
				l := newLog(t, Options{})
				next := history(seed)
				folds := []*fold{newFold()}
				for n := range 600 {
					events := l.Publish(next())
					for i := range events {
						for _, f := range folds {
							f.apply(&events[i])
						}
					}
					if n%60 != 0 {
						continue
					}
					for i, f := range folds {
						err := f.diff(l)
						if err == nil && name == "regular" {
							err = f.equal(l.Snapshot())
						}
						if err != nil {
							t.Fatalf("seed %d, publication %d, snapshot %d: %v", seed, n, i, err)
						}
					}
					folds = append(folds, newFoldOf(l))
				}
				if s := l.Stats(); s.Token.Sequence < 100 {
					t.Fatalf("seed %d: the history tells only %d events", seed, s.Token.Sequence)
				}
			}
		})
	}
}
