package relist

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// world is a runtime whose containers and sandboxes only ever go forward: created,
// running, exited, gone. Listings of it take time, overlap and are applied in any
// order.
type world struct {
	// mu orders the calls of a listing that come at once; in which order is not the
	// seed's to say.
	mu    sync.Mutex
	rng   *rand.Rand
	lists listRuntime
	next  int
}

func (w *world) newID(kind string) string {
	w.next++
	return fmt.Sprintf("%s%d", kind, w.next)
}

// turn lets one thing happen.
func (w *world) turn() {
	switch r := w.rng.IntN(10); {
	case r == 0 || len(w.lists.sandboxes) == 0:
		uid := fmt.Sprintf("p%d", w.rng.IntN(4))
		sb := &runtimeapi.PodSandbox{
			Id:       w.newID("s"),
			Metadata: &runtimeapi.PodSandboxMetadata{Uid: uid, Attempt: uint32(w.next)},
		}
		if uid != "p0" { // that one is made by hand and has no labels
			sb.Labels = map[string]string{labelPodUID: uid}
		}
		w.lists.sandboxes = append(w.lists.sandboxes, sb)
	case r < 3:
		sb := w.lists.sandboxes[w.rng.IntN(len(w.lists.sandboxes))]
		w.lists.containers = append(w.lists.containers, &runtimeapi.Container{
			Id: w.newID("c"), PodSandboxId: sb.Id, Labels: sb.Labels,
			Metadata: &runtimeapi.ContainerMetadata{Name: "app", Attempt: uint32(w.next)},
			State:    runtimeapi.ContainerState(w.rng.IntN(2)),
		})
	case r < 4:
		i := w.rng.IntN(len(w.lists.sandboxes))
		sb := w.lists.sandboxes[i]
		if sb.State == runtimeapi.PodSandboxState_SANDBOX_READY {
			// Listed messages do not change, so a change is a new one.
			w.lists.sandboxes[i] = &runtimeapi.PodSandbox{Id: sb.Id, Metadata: sb.Metadata, Labels: sb.Labels, State: runtimeapi.PodSandboxState_SANDBOX_NOTREADY}
		} else {
			w.lists.sandboxes = slices.Delete(slices.Clone(w.lists.sandboxes), i, i+1)
		}
	case len(w.lists.containers) > 0:
		i := w.rng.IntN(len(w.lists.containers))
		c := w.lists.containers[i]
		if c.State < runtimeapi.ContainerState_CONTAINER_EXITED {
			w.lists.containers[i] = &runtimeapi.Container{Id: c.Id, PodSandboxId: c.PodSandboxId, Labels: c.Labels, Metadata: c.Metadata, State: c.State + 1}
		} else {
			w.lists.containers = slices.Delete(slices.Clone(w.lists.containers), i, i+1)
		}
	}
}

func (w *world) turns(n int) {
	for range w.rng.IntN(n + 1) {
		w.turn()
	}
}

// The world is a Runtime in which time passes before and after each answer.
func (w *world) ListPodSandbox(ctx context.Context, f *runtimeapi.PodSandboxFilter) ([]*runtimeapi.PodSandbox, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.turns(2)
	defer w.turns(2)
	return w.lists.ListPodSandbox(ctx, f)
}

func (w *world) ListContainers(ctx context.Context, f *runtimeapi.ContainerFilter) ([]*runtimeapi.Container, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.turns(2)
	defer w.turns(2)
	return w.lists.ListContainers(ctx, f)
}

func (w *world) ContainerStatus(context.Context, string, bool) (*runtimeapi.ContainerStatusResponse, error) {
	return nil, nil
}

// law checks what the store says without the merge stage's help: of each item each
// type once at most and in order, and from each state to the next without a gap.
type law struct {
	told map[string][]event.Type
	last map[string]event.State
}

func (l *law) check(t *testing.T, c *Change) {
	t.Helper()
	id := c.ItemID()
	if last, ok := l.last[id]; ok && last != c.From {
		t.Fatalf("%s: change from %s after one to %s", id, c.From, last)
	} else if !ok && c.From != event.StateNonExistent {
		t.Fatalf("%s: first change is from %s", id, c.From)
	}
	l.last[id] = c.To
	if c.Type == "" {
		t.Fatalf("%s: %s to %s in a world that goes only forward", id, c.From, c.To)
	}
	order := event.Types()
	before := l.told[id]
	if n := len(before); n > 0 && slices.Index(order, before[n-1]) >= slices.Index(order, c.Type) {
		t.Fatalf("%s: %s after %v", id, c.Type, before)
	}
	l.told[id] = append(before, c.Type)
}

// openFlight is an observation under way. It is begun, lists and is applied at
// random moments; o is nil until it has listed.
type openFlight struct {
	at    time.Time
	begun uint64
	scope string
	o     *Observation
}

func TestRandomHistories(t *testing.T) {
	for seed := range uint64(200) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { randomHistory(t, seed) })
	}
}

func randomHistory(t *testing.T, seed uint64) {
	w := &world{rng: rand.New(rand.NewPCG(seed, 3))}
	s := NewStore(StoreOptions{})
	l := &law{told: make(map[string][]event.Type), last: make(map[string]event.State)}
	now := time.Now()
	tick := func() time.Time { now = now.Add(time.Millisecond); return now }
	apply := func(o *Observation) {
		for _, pc := range s.Apply(o, nil) {
			for i := range pc.Changes {
				if pc.Changes[i].Pod.UID != pc.Pod.UID {
					t.Fatalf("a change of %s among those of %s", pc.Changes[i].Pod.UID, pc.Pod.UID)
				}
				l.check(t, &pc.Changes[i])
			}
		}
	}
	var open []*openFlight
	for range 300 {
		w.turns(2)
		switch w.rng.IntN(4) {
		case 0: // begin; one of a scope at a time, as the engine does
			scope := []string{"", "", "p0", "p1", "p2", "p3"}[w.rng.IntN(6)]
			if !slices.ContainsFunc(open, func(f *openFlight) bool { return f.scope == scope }) {
				open = append(open, &openFlight{at: tick(), begun: s.generation(), scope: scope})
			}
		case 1: // list
			if i := w.pick(open); i >= 0 && open[i].o == nil {
				open[i].list(t, w, s)
			}
		default: // apply
			if i := w.pick(open); i >= 0 && open[i].o != nil {
				f := open[i]
				open = slices.Delete(open, i, i+1)
				apply(f.o)
			}
		}
	}
	for _, f := range open {
		if f.o != nil {
			apply(f.o)
		}
	}
	// Left alone, the store shows what is.
	o := &Observation{At: tick(), Sandboxes: w.lists.sandboxes, Containers: w.lists.containers}
	apply(o)
	want := len(w.lists.sandboxes) + len(w.lists.containers)
	if s.items.len() != want {
		t.Errorf("%d records of %d items", s.items.len(), want)
	}
	for _, c := range w.lists.containers {
		st, _ := containerState(c.State)
		if got := s.State(c.Id); got != st.event() {
			t.Errorf("%s is %s in the records and %s in the runtime", c.Id, got, st.event())
		}
	}
	// And with everything gone nothing is kept.
	apply(&Observation{At: tick()})
	if s.items.len() != 0 || len(s.pods) != 0 || len(s.orphans) != 0 {
		t.Errorf("left over: %d items, %d pods, %d orphans", s.items.len(), len(s.pods), len(s.orphans))
	}
}

func (w *world) pick(open []*openFlight) int {
	if len(open) == 0 {
		return -1
	}
	return w.rng.IntN(len(open))
}

func (f *openFlight) list(t *testing.T, w *world, s *Store) {
	var err error
	if f.scope == "" {
		f.o, err = listAll(context.Background(), w, s)
	} else {
		f.o, err = listPod(context.Background(), w, s, f.scope)
	}
	if err != nil {
		t.Fatal(err)
	}
	f.o.At, f.o.begun = f.at, f.begun
}
