package relist

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
)

// restoredFrom is what somebody who heard of all changes knows of a store's records.
func restoredFrom(s *Store) []Restored {
	var items []Restored
	for _, rec := range s.items.all() {
		r := Restored{Pod: rec.pod.pod, Sandbox: rec.sandbox, Container: rec.container, State: rec.state.event(), Started: rec.ran}
		if rec.createdAt != 0 {
			r.CreatedAt = time.Unix(0, rec.createdAt)
		}
		items = append(items, r)
	}
	return items
}

// TestRestoredStoreGoesOn lets random histories be observed by one store, and by a
// chain of stores each of which starts from the records of the one before.
func TestRestoredStoreGoesOn(t *testing.T) {
	for seed := range uint64(60) {
		w := &world{rng: rand.New(rand.NewPCG(seed, 11))}
		one, chain := NewStore(StoreOptions{}), NewStore(StoreOptions{})
		for n := range 80 {
			if w.rng.IntN(5) == 0 {
				next := NewStore(StoreOptions{})
				next.restore(restoredFrom(chain), nil)
				chain = next
			}
			w.turns(6)
			list := func(s *Store) []string {
				o := &Observation{At: time.Now(), Sandboxes: w.lists.sandboxes, Containers: w.lists.containers}
				var lines []string
				for _, pc := range s.Apply(o, nil) {
					for i := range pc.Changes {
						lines = append(lines, describeChange(&pc.Changes[i]))
					}
				}
				// A sandbox that is gone does not outlive a restart, and with it goes what
				// its last containers' place among those of other sandboxes hung on.
				slices.Sort(lines)
				return lines
			}
			if got, want := list(chain), list(one); !slices.Equal(got, want) {
				t.Fatalf("seed %d, listing %d: after restarts it tells\n\t%s\nwant\n\t%s",
					seed, n, strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
			}
			// A pod is found again by the same ways.
			for uid := range one.pods {
				if got, want := chain.scope(uid), one.scope(uid); got.byLabel != want.byLabel || len(got.byID) != len(want.byID) {
					t.Fatalf("seed %d: pod %s is asked for by %+v, want %+v", seed, uid, got, want)
				}
			}
		}
	}
}

func restoredContainer(id string, st event.State, started bool) Restored {
	return Restored{
		Pod:       event.Pod{UID: "p"},
		Sandbox:   &event.Sandbox{ID: "sandbox-p"},
		Container: &event.Container{ID: id, Name: "app", Image: "old"},
		State:     st, Started: started,
	}
}

func restoredSandbox(st event.State) Restored {
	return Restored{Pod: event.Pod{UID: "p"}, Sandbox: &event.Sandbox{ID: "sandbox-p"}, State: st, Started: true}
}

func TestRestoredIsComparedWithTheFirstListing(t *testing.T) {
	onBench(t, Options{}, func(b *bench) {
		b.engine.Restore([]Restored{
			restoredContainer("same", event.StateRunning, true), // before its sandbox
			restoredSandbox(event.StateRunning),
			restoredContainer("ended", event.StateRunning, true),
			restoredContainer("flash", event.StateCreated, false),
			restoredContainer("gone", event.StateExited, true),
			restoredContainer("lost", event.StateRunning, true),
			restoredContainer("over", event.StateExited, true),
		}, []string{"back"})
		b.pod("p")
		b.set("p", "same", isRunning)
		b.set("p", "ended", isExited)
		b.set("p", "flash", isExited)
		b.set("p", "over", isExited)
		b.set("p", "new", isRunning)
		b.relist("")
		for _, c := range b.told {
			if c.Detection.FoundBy != event.FoundStartup {
				b.Errorf("%s is found by %s", c.ItemID(), c.Detection.FoundBy)
			}
		}
		b.want(
			"p ContainerDied ended (app/0) running -> exited code=3",
			"p ContainerStarted flash (app/0) created -> running inferred",
			"p ContainerDied flash (app/0) running -> exited code=3",
			"p ContainerRemoved gone (app/0) exited -> non-existent",
			"p ContainerDied lost (app/0) running -> exited status=gone",
			"p ContainerRemoved lost (app/0) exited -> non-existent",
			"p ContainerStarted new (app/0) non-existent -> running",
		)
		b.relist("")
		b.relist("p")
		b.want()
		if rec := b.engine.store.items.get("same"); rec.container.Image == "old" || rec.restored {
			b.Error("the listing's names are not taken over")
		}
		if !b.engine.Store().Seen("back") || b.engine.Store().State("back") != event.StateNonExistent {
			b.Error("what was removed before is not known")
		}
	})
}

// TestRestoredIsHeldWhileTheKernelShowsIt: a runtime that was restarted together with
// the daemon may not list everything at first.
func TestRestoredIsHeldWhileTheKernelShowsIt(t *testing.T) {
	opts := Options{Store: StoreOptions{Alive: func(id string) (bool, bool) { return id == "runs", true }}}
	onBench(t, opts, func(b *bench) {
		b.engine.Restore([]Restored{
			restoredSandbox(event.StateRunning),
			restoredContainer("runs", event.StateRunning, true),
			restoredContainer("dead", event.StateRunning, true),
		}, nil)
		b.pod("p")
		b.relist("")
		b.want(
			"p ContainerDied dead (app/0) running -> exited status=gone",
			"p ContainerRemoved dead (app/0) exited -> non-existent",
		)
		b.set("p", "runs", isRunning)
		b.relist("")
		b.want()
	})
}

// TestRestoredOrphan: a container whose sandbox was never listed is given to it when
// it is.
func TestRestoredOrphan(t *testing.T) {
	s := NewStore(StoreOptions{})
	orphan := restoredContainer("c", event.StateRunning, true)
	orphan.Pod.UID = "sandbox-p"
	s.restore([]Restored{orphan, orphan, {Pod: event.Pod{UID: "p"}}}, []string{"c"})
	rt := &fakeRuntime{}
	rt.pod("p")
	rt.set("p", "c", isRunning)
	changes := s.Apply(&Observation{At: time.Now(), Sandboxes: rt.list.sandboxes, Containers: rt.list.containers}, nil)
	if len(changes) != 1 || len(changes[0].Changes) != 1 || changes[0].Changes[0].Type != event.SandboxStarted {
		t.Errorf("told %+v", changes)
	}
	if got := s.PodOf("c"); got != "p" {
		t.Errorf("the container is in pod %q", got)
	}
}

// TestRestoredPlaceIsTold: what was told of a container at its start is told at its
// end, restart or not.
func TestRestoredPlaceIsTold(t *testing.T) {
	onBench(t, Options{}, func(b *bench) {
		runs := restoredContainer("c", event.StateRunning, true)
		runs.Status = &event.Status{Pid: 42, CgroupPath: "/kubepods/c", CgroupID: 7}
		b.engine.Restore([]Restored{restoredSandbox(event.StateRunning), runs}, nil)
		b.pod("p")
		b.set("p", "c", isExited)
		b.relist("")
		if len(b.told) != 1 || b.told[0].Status == nil || b.told[0].Status.Pid != 42 || b.told[0].Status.CgroupID != 7 || b.told[0].Status.ExitCode == nil {
			b.Errorf("told %+v", b.told)
		}
	})
}
