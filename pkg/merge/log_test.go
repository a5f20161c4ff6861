package merge

import (
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/relist"
)

func TestPublishFillsTheEvent(t *testing.T) {
	at := time.Date(2026, 3, 4, 5, 6, 7, 8, time.FixedZone("", 3600))
	l := newLog(t, Options{Epoch: "e", Now: func() time.Time { return at }})
	code := int32(3)
	died := relist.Change{
		Type:      event.ContainerDied,
		Pod:       event.Pod{UID: "u", Namespace: "ns", Name: "web"},
		Sandbox:   &event.Sandbox{ID: "s", Attempt: 1},
		Container: &event.Container{ID: "c", Name: "main", Attempt: 2, Image: "img"},
		From:      event.StateRunning, To: event.StateExited,
		Status:        &event.Status{ExitCode: &code, Reason: "Error"},
		StatusMissing: event.StatusLate,
		Detection:     event.Detection{FoundBy: event.FoundEarly, Trigger: "ebpf", SignalAt: at, ObservedAt: at},
		Inferred:      true,
	}
	sync := died
	sync.Type = event.PodSync
	podSync := relist.Change{Type: event.PodSync, Pod: died.Pod, Sandbox: died.Sandbox}

	got := l.Publish([]relist.Change{died, sync, podSync})
	want := event.Event{
		Epoch: "e", Sequence: 1, ID: "c/ContainerDied", Type: event.ContainerDied, Time: at.UTC(),
		Pod: died.Pod, Sandbox: died.Sandbox, Container: died.Container,
		From: died.From, To: died.To, Status: died.Status, StatusMissing: died.StatusMissing,
		Detection: died.Detection, Inferred: true,
	}
	if len(got) != 3 || !reflect.DeepEqual(got[0], want) {
		t.Fatalf("got %+v\nwant %+v and two more", got, want)
	}
	if got[1].ID != "c/PodSync/e-2" || got[2].ID != "u/PodSync/e-3" {
		t.Errorf("the IDs of the PodSyncs are %q and %q", got[1].ID, got[2].ID)
	}
	if got[0].Container != died.Container || got[0].Sandbox != died.Sandbox || got[0].Status != died.Status {
		t.Error("the event does not share what the change points to")
	}
}

func TestPublishCallsHooksInOrder(t *testing.T) {
	var l *Log
	var got []string
	l = newLog(t, Options{
		OnEvent: func(e *event.Event) {
			// What is told is visible by now, and a hook may look.
			if l.Token().Sequence < e.Sequence || len(l.Snapshot().Pods) != 1 || l.Stats().Containers != 1 {
				t.Errorf("event %d is told before it is there", e.Sequence)
			}
			got = append(got, e.ID)
		},
		OnSuppressed: func(c *relist.Change, why Reason) { got = append(got, fmt.Sprint(c.Type, " ", why)) },
	})
	l.Publish([]relist.Change{change(event.ContainerStarted, "c"), change(event.ContainerCreated, "c"), change(event.ContainerDied, "c")})
	l.Publish([]relist.Change{change(event.ContainerDied, "c")})
	want := []string{"c/ContainerStarted", "c/ContainerDied", "ContainerCreated out-of-order", "ContainerDied repeated"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestPublishWithNothingToTell(t *testing.T) {
	l := newLog(t, Options{})
	if got := l.Publish(nil); got != nil {
		t.Errorf("no changes give %v", got)
	}
	unknown := change("", "c")
	unknown.To = event.StateUnknown
	if got := l.Publish([]relist.Change{unknown}); got != nil || l.Token().Sequence != 0 {
		t.Errorf("a change without a type gives %v, token %s", got, l.Token())
	}
}

func TestPublishFromManyGoroutines(t *testing.T) {
	var all []*event.Event
	l := newLog(t, Options{OnEvent: func(e *event.Event) { all = append(all, e) }})
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for n := range 200 {
				id := fmt.Sprint(g/2, "-", n) // two goroutines an ID: one comes late
				for _, typ := range []event.Type{event.ContainerStarted, event.PodSync, event.ContainerDied, event.ContainerRemoved} {
					l.Publish([]relist.Change{changeIn(id, typ, id)})
				}
			}
		})
	}
	wg.Wait()
	if err := checkLaw(all); err != nil {
		t.Error(err)
	}
	s := l.Stats()
	if s.Token.Sequence != uint64(len(all)) || s.Pods != 0 || s.Containers != 0 || s.Removed != 800 {
		t.Errorf("%d events, stats %+v; want as many, all 800 containers gone", len(all), s)
	}
}

func TestStats(t *testing.T) {
	l := newLog(t, Options{Epoch: "e", JournalEvents: 3})
	if got := l.Stats(); got.Oldest != 1 || got.JournalEvents != 0 || got.Token != (Token{"e", 0}) {
		t.Errorf("empty log: %+v", got)
	}
	for _, typ := range []event.Type{event.SandboxStarted, event.ContainerStarted, event.ContainerStarted, event.ContainerDied, event.PodSync} {
		l.Publish([]relist.Change{change(typ, "x")})
	}
	l.Publish([]relist.Change{change(event.ContainerRemoved, "x")})
	w, err := l.Watch(WatchOptions{Since: Token{"e", 1}})
	if err != nil {
		t.Fatal(err)
	}
	take(t, w, 1)
	got := l.Stats()
	want := Stats{
		Token: Token{"e", 5}, Oldest: 3, OldestToken: Token{"e", 2}, JournalEvents: 3, JournalBytes: got.JournalBytes,
		Pods: 1, Sandboxes: 1, Removed: 1, Watchers: 1, Expired: 1,
		Suppressed: map[Reason]uint64{ReasonRepeated: 1, ReasonOutOfOrder: 0, ReasonAfterRemoval: 0, ReasonMalformed: 0},
	}
	if !reflect.DeepEqual(got, want) || got.JournalBytes < 600 {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	w.Close()
	w.Close()
	if n := l.Stats().Watchers; n != 0 {
		t.Errorf("%d watchers after Close", n)
	}
}

func TestNewRefusesBadOptions(t *testing.T) {
	for want, o := range map[string]Options{
		"holds '-'":        {Epoch: "a-b"},
		"want 1 to 64":     {Epoch: strings.Repeat("e", 65)},
		"JournalEvents -1": {JournalEvents: -1},
		"JournalBytes -1":  {JournalBytes: -1},
		"Removed -1":       {Removed: -1},
	} {
		if l, err := New(o); err == nil || l != nil || !strings.Contains(err.Error(), want) {
			t.Errorf("New(%+v): %v, want an error with %q", o, err, want)
		}
	}
}

// TestRemovedAreForgottenOldestFirst: the ring of removed IDs is bounded.
func TestRemovedAreForgottenOldestFirst(t *testing.T) {
	l := newLog(t, Options{Removed: 3})
	for i := range 10 {
		id := fmt.Sprint(i)
		l.Publish([]relist.Change{change(event.ContainerRemoved, id)})
	}
	if n := l.Stats().Removed; n != 3 {
		t.Errorf("%d IDs are remembered, want 3", n)
	}
	for _, id := range []string{"7", "8", "9"} {
		if got := l.Publish([]relist.Change{change(event.ContainerStarted, id)}); len(got) != 0 {
			t.Errorf("%s is told again though it is among the last three removed", id)
		}
	}
	if got := l.Publish([]relist.Change{change(event.ContainerStarted, "6")}); len(got) != 1 {
		t.Error("6 is still remembered, after three others")
	}
}

// TestMemoryStaysBounded lets 100,000 containers come and go, in pods of their
// own, and compares the heap with that after the first tenth of them.
func TestMemoryStaysBounded(t *testing.T) {
	l := newLog(t, Options{JournalEvents: 1024, Removed: 4096})
	var early uint64
	for n := range 100_000 {
		if n == 10_000 {
			early = heap()
		}
		id := fmt.Sprintf("%064x", n)
		for _, typ := range []event.Type{event.ContainerCreated, event.ContainerStarted, event.ContainerDied, event.ContainerRemoved} {
			l.Publish([]relist.Change{changeIn(id[32:], typ, id)})
		}
	}
	late := heap()
	s := l.Stats()
	if s.Token.Sequence != 400_000 || s.Pods != 0 || s.Containers != 0 || s.Removed != 4096 || s.JournalEvents != 1024 {
		t.Errorf("stats %+v", s)
	}
	if late > early+1<<20 {
		t.Errorf("the heap grew from %d to %d bytes", early, late)
	}
	runtime.KeepAlive(l)
}

// TestLargePodsStayBounded lets pods come and go whose annotations are as large as the
// API server allows. Once such a pod is removed only the journal has them, and
// JournalBytes is to hold.
func TestLargePodsStayBounded(t *testing.T) {
	const bound, annotations, pods = 2 << 20, 256 << 10, 200
	l := newLog(t, Options{JournalBytes: bound, Removed: 16})
	early := heap()
	for n := range pods {
		id := fmt.Sprintf("%064x", n)
		sandbox := &event.Sandbox{ID: id, Annotations: map[string]string{"note": strings.Repeat("x", annotations)}}
		for _, typ := range []event.Type{event.SandboxStarted, event.SandboxDied, event.SandboxRemoved} {
			l.Publish([]relist.Change{{Type: typ, Pod: event.Pod{UID: id}, Sandbox: sandbox}})
		}
	}
	late := heap()
	s := l.Stats()
	if s.Token.Sequence != 3*pods || s.Pods != 0 {
		t.Errorf("stats %+v", s)
	}
	if s.JournalBytes > bound || s.JournalBytes < bound/2 {
		t.Errorf("%d bytes are in the journal, want as much as fits into %d", s.JournalBytes, bound)
	}
	if late > early+bound+1<<20 {
		t.Errorf("the heap grew from %d to %d bytes, the journal says %d", early, late, s.JournalBytes)
	}
	runtime.KeepAlive(l)
}

// heap is what is in use once garbage is collected.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
