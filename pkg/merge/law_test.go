package merge

import (
	"errors"
	"fmt"
	"testing"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/relist"
)

// checkLaw is the law, stated without any of the package's own notions: over all
// epochs, or any part of them, these are the events that may have been told.
func checkLaw(events []*event.Event) error {
	order := map[event.Type]int{
		event.ContainerCreated: 1, event.ContainerStarted: 2, event.ContainerDied: 3, event.ContainerRemoved: 4,
		event.SandboxStarted: 1, event.SandboxDied: 2, event.SandboxRemoved: 3,
	}
	var errs []error
	bad := func(e *event.Event, format string, args ...any) {
		errs = append(errs, fmt.Errorf("event %d %s: %w", e.Sequence, e.ID, fmt.Errorf(format, args...)))
	}
	reached := map[string]int{}  // "c" or "s" and the ID → its last step
	removed := map[string]bool{} // the same → removed
	ids := map[string]uint64{}   // event ID → sequence
	left := map[string]bool{}    // epochs that others came after
	for i, e := range events {
		if i > 0 && e.Epoch != events[i-1].Epoch {
			left[events[i-1].Epoch] = true
		}
		if i > 0 && e.Sequence != events[i-1].Sequence+1 || left[e.Epoch] {
			bad(e, "of epoch %s follows event %d of epoch %s", e.Epoch, events[i-1].Sequence, events[i-1].Epoch)
		}
		if before, ok := ids[e.ID]; ok {
			bad(e, "has the ID of event %d", before)
		}
		ids[e.ID] = e.Sequence

		var item, id string
		switch e.Type {
		case event.PodSync:
			id = e.Pod.UID
			if e.Container != nil {
				item, id = "c"+e.Container.ID, e.Container.ID
			}
			if want := fmt.Sprintf("%s/PodSync/%s-%d", id, e.Epoch, e.Sequence); e.ID != want {
				bad(e, "want the ID %s", want)
			}
			if removed[item] {
				bad(e, "the container was removed")
			}
			continue
		case event.SandboxStarted, event.SandboxDied, event.SandboxRemoved:
			id = e.Sandbox.ID
			item = "s" + id
		default:
			id = e.Container.ID
			item = "c" + id
		}
		if want := id + "/" + string(e.Type); e.ID != want {
			bad(e, "want the ID %s", want)
		}
		step, ok := order[e.Type]
		switch {
		case !ok:
			bad(e, "unknown type")
		case removed[item]:
			bad(e, "was removed before")
		case step <= reached[item]:
			bad(e, "step %d after step %d", step, reached[item])
		}
		reached[item] = step
		removed[item] = e.Type == event.ContainerRemoved || e.Type == event.SandboxRemoved
	}
	return errors.Join(errs...)
}

// TestLawCheckerCatches makes sure that checkLaw is no rubber stamp.
func TestLawCheckerCatches(t *testing.T) {
	ev := func(sequence uint64, typ event.Type) *event.Event {
		return &event.Event{Epoch: "e", Sequence: sequence, ID: "c1/" + string(typ), Type: typ,
			Container: &event.Container{ID: "c1"}}
	}
	sync := ev(2, event.PodSync)
	sync.ID = "c1/PodSync/e-2"
	of := func(epoch string, e *event.Event) *event.Event {
		e.Epoch = epoch
		return e
	}
	for name, events := range map[string][]*event.Event{
		"epoch again":   {ev(1, event.ContainerCreated), of("f", ev(2, event.ContainerStarted)), ev(3, event.ContainerDied)},
		"gap":           {ev(1, event.ContainerCreated), ev(3, event.ContainerStarted)},
		"repeated":      {ev(1, event.ContainerStarted), ev(2, event.ContainerStarted)},
		"out of order":  {ev(1, event.ContainerDied), ev(2, event.ContainerStarted)},
		"after removal": {ev(1, event.ContainerRemoved), ev(2, event.ContainerDied)},
		"sync removed":  {ev(1, event.ContainerRemoved), sync},
		"wrong ID":      {{Epoch: "e", Sequence: 1, ID: "x", Type: event.ContainerDied, Container: &event.Container{ID: "c1"}}},
		"unknown type":  {ev(1, "ContainerPaused")},
	} {
		if checkLaw(events) == nil {
			t.Errorf("%s: passes as lawful", name)
		}
	}
	if err := checkLaw([]*event.Event{ev(1, event.ContainerCreated), sync, ev(3, event.ContainerDied)}); err != nil {
		t.Errorf("a lawful sequence is refused: %v", err)
	}
}

func TestRandomHistoriesKeepTheLaw(t *testing.T) {
	for name, history := range histories {
		t.Run(name, func(t *testing.T) {
			for _, seed := range seeds(t) {
				l := newLog(t, Options{Epoch: "e"})
				var all []*event.Event
				next := history(seed)
				for range 2000 {
					events := l.Publish(next())
					for i := range events {
						all = append(all, &events[i])
					}
				}
				if err := checkLaw(all); err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
				if len(all) == 0 || all[0].Sequence != 1 {
					t.Fatalf("seed %d: told %d events, want the first to have sequence 1", seed, len(all))
				}
			}
		})
	}
}

// TestSuppression is the table of what is not told, and why.
func TestSuppression(t *testing.T) {
	const (
		created = event.ContainerCreated
		started = event.ContainerStarted
		died    = event.ContainerDied
		removed = event.ContainerRemoved
		sync    = event.PodSync
	)
	for _, row := range []struct {
		before []event.Type
		then   event.Type
		want   Reason
	}{
		{nil, created, 0},
		{nil, started, 0},
		{nil, died, 0},
		{nil, removed, 0},
		{nil, sync, 0},
		{[]event.Type{created}, created, ReasonRepeated},
		{[]event.Type{created}, started, 0},
		{[]event.Type{created}, died, 0},
		{[]event.Type{created}, removed, 0},
		{[]event.Type{started}, created, ReasonOutOfOrder},
		{[]event.Type{started}, started, ReasonRepeated},
		{[]event.Type{started}, died, 0},
		{[]event.Type{started}, sync, 0},
		{[]event.Type{created, died}, started, ReasonOutOfOrder},
		{[]event.Type{created, started, died}, created, ReasonRepeated},
		{[]event.Type{created, started, died}, started, ReasonRepeated},
		{[]event.Type{created, started, died}, died, ReasonRepeated},
		{[]event.Type{created, started, died}, sync, 0},
		{[]event.Type{created, started, died}, removed, 0},
		{[]event.Type{sync}, sync, 0},
		{[]event.Type{removed}, created, ReasonAfterRemoval},
		{[]event.Type{removed}, started, ReasonAfterRemoval},
		{[]event.Type{removed}, died, ReasonAfterRemoval},
		{[]event.Type{removed}, removed, ReasonAfterRemoval},
		{[]event.Type{removed}, sync, ReasonAfterRemoval},

		{nil, event.SandboxStarted, 0},
		{[]event.Type{event.SandboxStarted}, event.SandboxStarted, ReasonRepeated},
		{[]event.Type{event.SandboxDied}, event.SandboxStarted, ReasonOutOfOrder},
		{[]event.Type{event.SandboxRemoved}, event.SandboxDied, ReasonAfterRemoval},
		// IDs of containers and of sandboxes are apart.
		{[]event.Type{event.SandboxRemoved}, started, 0},
		{[]event.Type{removed}, event.SandboxStarted, 0},

		{nil, "ContainerPaused", ReasonMalformed},
	} {
		t.Run(fmt.Sprint(row.before, " then ", row.then), func(t *testing.T) {
			var got []Reason
			l := newLog(t, Options{OnSuppressed: func(_ *relist.Change, why Reason) { got = append(got, why) }})
			for _, typ := range row.before {
				if events := l.Publish([]relist.Change{change(typ, "x")}); len(events) != 1 {
					t.Fatalf("%s is not told, but is what the row starts from", typ)
				}
			}
			events := l.Publish([]relist.Change{change(row.then, "x")})
			if row.want == 0 {
				if len(events) != 1 || len(got) != 0 {
					t.Fatalf("told %d events, suppressed for %v; want it told", len(events), got)
				}
				return
			}
			if len(events) != 0 || len(got) != 1 || got[0] != row.want {
				t.Fatalf("told %d events, suppressed for %v; want %v", len(events), got, row.want)
			}
			for why, n := range l.Stats().Suppressed {
				if want := uint64(0); (why == row.want) != (n == 1) && n != want {
					t.Errorf("%v is counted %d times", why, n)
				}
			}
			if l.Stats().Suppressed[row.want] != 1 {
				t.Errorf("%v is not counted", row.want)
			}
		})
	}
}

func TestMalformedChanges(t *testing.T) {
	pod := event.Pod{UID: "p"}
	container, sandbox := &event.Container{ID: "c"}, &event.Sandbox{ID: "s"}
	for name, c := range map[string]relist.Change{
		"nothing at all":               {},
		"unknown type":                 {Type: "Foo", Pod: pod, Container: container},
		"container type, no container": {Type: event.ContainerDied, Pod: pod, Sandbox: sandbox},
		"container without ID":         {Type: event.ContainerDied, Pod: pod, Container: &event.Container{}},
		"sandbox type, no sandbox":     {Type: event.SandboxDied, Pod: pod},
		"sandbox without ID":           {Type: event.SandboxDied, Pod: pod, Sandbox: &event.Sandbox{}},
		"sandbox type with container":  {Type: event.SandboxDied, Pod: pod, Sandbox: sandbox, Container: container},
		"sync of no pod":               {Type: event.PodSync},
		"sync of container without ID": {Type: event.PodSync, Pod: pod, Container: &event.Container{}},
	} {
		l := newLog(t, Options{})
		if events := l.Publish([]relist.Change{c}); len(events) != 0 {
			t.Errorf("%s: told %+v", name, events)
		}
		if s := l.Stats(); s.Suppressed[ReasonMalformed] != 1 || s.Pods != 0 || s.Removed != 0 {
			t.Errorf("%s: want it counted as malformed and no trace of it: %+v", name, s)
		}
	}
}

func TestReasonNames(t *testing.T) {
	seen := map[string]bool{"": true}
	for _, why := range Reasons() {
		if seen[why.String()] {
			t.Errorf("reason %d has the name %q, which is empty or taken", why, why)
		}
		seen[why.String()] = true
	}
	if len(Reasons()) != reasons-1 {
		t.Errorf("Reasons lists %d of %d", len(Reasons()), reasons-1)
	}
}
