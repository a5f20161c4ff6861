package relist

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// TestGarbage feeds the store lists that no sane runtime gives. It must not panic,
// must tell only valid text, must go from state to state without a gap, and must
// keep nothing once all is gone.
func TestGarbage(t *testing.T) {
	for seed := range uint64(100) {
		garbage(t, rand.New(rand.NewPCG(seed, 7)))
	}
}

func garbage(t *testing.T, rng *rand.Rand) {
	ids := []string{"", "a", "b", "c", "d", "e", "\xff", "a\xc0"}
	id := func() string { return ids[rng.IntN(len(ids))] }
	labels := func() map[string]string {
		return map[string]string{labelPodUID: id(), labelPodName: id(), labelPodNamespace: id()}
	}
	observation := func(at time.Time) *Observation {
		o := &Observation{At: at.Add(time.Duration(rng.IntN(2000)-1000) * time.Millisecond)}
		if rng.IntN(2) == 0 {
			o.PodUID = id()
		}
		for range rng.IntN(6) {
			sb := &runtimeapi.PodSandbox{Id: id(), State: runtimeapi.PodSandboxState(rng.IntN(4) - 1), Labels: labels(), CreatedAt: rng.Int64() - 1<<62}
			if rng.IntN(2) == 0 {
				sb.Metadata = &runtimeapi.PodSandboxMetadata{Uid: id(), Name: id(), Namespace: id()}
			}
			o.Sandboxes = append(o.Sandboxes, sb)
		}
		for range rng.IntN(8) {
			c := &runtimeapi.Container{Id: id(), PodSandboxId: id(), State: runtimeapi.ContainerState(rng.IntN(6) - 1), Labels: labels(), CreatedAt: rng.Int64() - 1<<62}
			if rng.IntN(2) == 0 {
				c.Metadata = &runtimeapi.ContainerMetadata{Name: id(), Attempt: rng.Uint32()}
				c.Image = &runtimeapi.ImageSpec{Image: id()}
			}
			o.Containers = append(o.Containers, c)
		}
		if rng.IntN(4) == 0 {
			o.Sandboxes, o.Containers = append(o.Sandboxes, nil), append(o.Containers, nil)
		}
		return o
	}
	s := NewStore(StoreOptions{Alive: func(string) (bool, bool) { return rng.IntN(3) == 0, rng.IntN(2) == 0 }})
	last := make(map[string]event.State)
	apply := func(o *Observation) {
		for _, pc := range s.Apply(o, nil) {
			for i := range pc.Changes {
				c := &pc.Changes[i]
				key := fmt.Sprint(c.Container == nil, c.ItemID())
				if before, ok := last[key]; ok && before != c.From {
					t.Fatalf("%s: change from %s after one to %s", key, c.From, before)
				}
				last[key] = c.To
				if c.To == event.StateNonExistent {
					delete(last, key)
				}
				if text := fmt.Sprintf("%+v %+v %+v", c.Pod, c.Sandbox, c.Container); c.Pod.UID == "" || !utf8.ValidString(text) {
					t.Fatalf("told: %q", text)
				}
			}
		}
	}
	now := time.Now()
	for range 50 {
		apply(observation(now))
		now = now.Add(time.Second)
	}
	s.opts.Alive = func(string) (bool, bool) { return false, true }
	apply(&Observation{At: now.Add(time.Hour)})
	if s.items.len() != 0 || len(s.pods) != 0 || len(s.orphans) != 0 || len(s.missing) != 0 {
		t.Fatalf("left over: %d items, %d pods, %d orphans, %d missing", s.items.len(), len(s.pods), len(s.orphans), len(s.missing))
	}
	if len(last) != 0 {
		t.Fatalf("never told as removed: %v", last)
	}
}

// A container's sandbox ID may itself be no valid text; it is only a reference,
// but it is told.
func TestLongAndOddText(t *testing.T) {
	name := strings.Repeat("n\n\"", 1400)
	s := NewStore(StoreOptions{})
	got := s.Apply(&Observation{At: time.Now(), Containers: []*runtimeapi.Container{{
		Id: "c", PodSandboxId: "\xffs", Metadata: &runtimeapi.ContainerMetadata{Name: name},
	}}}, nil)
	c := got[0].Changes[0]
	if c.Container.Name != name || c.Sandbox.ID != "\uFFFDs" || c.Pod.UID != "\uFFFDs" {
		t.Errorf("told a name of %d bytes, pod %+v, sandbox %+v", len(c.Container.Name), c.Pod, c.Sandbox)
	}
}

func TestViews(t *testing.T) {
	h := newHistory()
	for _, cmd := range []string{
		"sandbox s1 pod=p1 ready", "sandbox s2 pod=p2 notready",
		"container c1 sandbox=s1 running", "container c2 sandbox=s1 exited", "container c3 sandbox=s2 exited",
		"relist",
	} {
		if _, err := h.run(strings.Fields(cmd)); err != nil {
			t.Fatal(err)
		}
	}
	want := "{RunningPods:1 Containers:map[created:0 exited:2 running:1 unknown:0]}"
	if got := fmt.Sprintf("%+v", h.store.Counts()); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	for _, cmd := range []string{"gone c2", "relist"} {
		if _, err := h.run(strings.Fields(cmd)); err != nil {
			t.Fatal(err)
		}
	}
	for id, want := range map[string]bool{"c1": true, "c2": true, "s1": true, "other": false} {
		if got := h.store.Seen(id); got != want {
			t.Errorf("Seen(%q) = %t", id, got)
		}
	}
	if got := h.store.PodOf("c1"); got != "p1" {
		t.Errorf("PodOf(c1) = %q", got)
	}
	if got := h.store.PodOf("c2"); got != "" {
		t.Errorf("PodOf(c2) = %q", got)
	}
}

func TestRemovedIDs(t *testing.T) {
	var r removedIDs
	r.add("again", 1, 1)
	for i := range rememberRemoved - 1 {
		r.add(fmt.Sprint(i), 2, 2)
	}
	r.add("again", 3, 3) // takes the place of its own first entry
	if at, ok := r.at("again"); !ok || at.stamp != 3 {
		t.Errorf("again: %+v, %t", at, ok)
	}
	r.add("0", 4, 4) // is there already; takes the place of "0"
	if at, ok := r.at("0"); !ok || at.stamp != 4 {
		t.Errorf("0: %+v, %t", at, ok)
	}
	for i := range 2 * rememberRemoved {
		r.add(fmt.Sprint("more", i), 5, 5)
	}
	if len(r.places) != rememberRemoved || len(r.ring) != rememberRemoved {
		t.Errorf("%d remembered, want %d", len(r.places), rememberRemoved)
	}
	if _, ok := r.at("again"); ok {
		t.Error("remembered for ever")
	}
}

func TestTextsAreShared(t *testing.T) {
	var x texts
	for i := range 3 * rememberTexts {
		x.share(fmt.Sprint(i))
	}
	if len(x) > rememberTexts {
		t.Errorf("%d texts kept", len(x))
	}
}
