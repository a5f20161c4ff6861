package relist

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
)

// Compare returns the changes that lead from one state of all pods to another, as
// [Store.Apply] would have told them had it listed the one and then the other: for
// who has two snapshots and not what happened in between. at is when now was the
// state. The result is sorted by pod UID, and shares what the snapshots point to.
//
// What listings tell of an end, snapshots may tell better or worse: a Died has the
// status that now holds; one of an item that now lacks has none, and is marked as
// inferred, since nobody saw how it ended. Details that now has and old has not make
// a PodSync where no other change brings them. Detection says only when.
func Compare(old, now []event.PodStatus, at time.Time) []PodChanges {
	c := comparison{items: make(map[itemKey]*compared), pods: make(map[string]*podRecord)}
	for i := range now {
		c.addPod(&now[i], func(item *compared, st state, details *event.Status) {
			item.rec.next, item.now = st, details
		})
	}
	for i := range old {
		c.addPod(&old[i], func(item *compared, st state, details *event.Status) {
			item.rec.state, item.old = st, details
			item.rec.ran = st == running || st == exited
		})
	}
	c.link()
	var out []PodChanges
	table := indexTransitions()
	for _, uid := range slices.Sorted(maps.Keys(c.pods)) {
		p := c.pods[uid]
		if changes := c.changes(table, p, at); len(changes) > 0 {
			out = append(out, PodChanges{Pod: p.pod, Changes: changes})
		}
	}
	return out
}

// comparison is the union of two snapshots.
type comparison struct {
	pods  map[string]*podRecord
	items map[itemKey]*compared
}

type itemKey struct {
	sandbox bool
	id      string
}

// compared is an item of either snapshot or of both. Its record's state is the old
// one, next the new one; absent where a snapshot lacks it.
type compared struct {
	rec      *record
	old, now *event.Status
}

// addPod takes in the items of a pod; put sets what its snapshot says of each. Of an
// item in both, the first one's pod and names hold.
func (c *comparison) addPod(p *event.PodStatus, put func(*compared, state, *event.Status)) {
	for i := range p.Sandboxes {
		s := &p.Sandboxes[i]
		put(c.item(&p.Pod, &record{sandbox: &s.Sandbox, createdAt: nanoseconds(s.CreatedAt)}), eventState(s.State), nil)
	}
	for i := range p.Containers {
		s := &p.Containers[i]
		rec := &record{container: &s.Container, createdAt: nanoseconds(s.CreatedAt)}
		if s.SandboxID != "" {
			rec.sandbox = &event.Sandbox{ID: s.SandboxID}
		}
		put(c.item(&p.Pod, rec), eventState(s.State), s.Status)
	}
}

// item returns the item that rec is of, made of rec if there is none.
func (c *comparison) item(name *event.Pod, rec *record) *compared {
	key := itemKey{rec.container == nil, rec.id()}
	if have := c.items[key]; have != nil {
		return have
	}
	p := c.pods[name.UID]
	if p == nil {
		p = &podRecord{pod: *name}
		c.pods[name.UID] = p
	}
	rec.pod = p
	p.records = append(p.records, rec)
	item := &compared{rec: rec}
	c.items[key] = item
	return item
}

// link gives containers and sandboxes to their sandboxes.
func (c *comparison) link() {
	for key, item := range c.items {
		rec := item.rec
		if key.sandbox {
			rec.home = rec
		} else if home := c.items[itemKey{true, rec.sandboxID()}]; home != nil {
			rec.home, rec.sandbox = home.rec, home.rec.sandbox
		}
	}
}

// changes returns the changes of one pod, in the natural order.
func (c *comparison) changes(table *transitionIndex, p *podRecord, at time.Time) []Change {
	var steps []step
	var syncs []Change
	details := make(map[string]outcome)
	for _, rec := range p.records {
		item := c.items[itemKey{rec.container == nil, rec.id()}]
		switch {
		case rec.state != rec.next:
			if item.now != nil {
				details[rec.id()] = outcome{status: item.now}
			}
			steps = table.diff(rec, rec.next, steps)
		case item.now != nil && !sameStatus(item.old, item.now):
			sync := step{rec: rec, from: rec.state, to: rec.state}.change(at)
			sync.Type, sync.Status = event.PodSync, item.now
			syncs = append(syncs, sync)
		}
	}
	sortSteps(steps)
	slices.SortFunc(syncs, func(a, b Change) int { return cmp.Compare(a.Container.ID, b.Container.ID) })
	changes := make([]Change, 0, len(steps)+len(syncs))
	for _, st := range steps {
		change := st.change(at)
		change.Inferred = change.Inferred || st.verb == died && st.rec.next == absent
		changes = append(changes, change)
	}
	return append(fillIn(changes, details), syncs...)
}

// eventState is the state that a word of the vocabulary stands for.
func eventState(s event.State) state {
	for st := absent; st < numStates; st++ {
		if st.event() == s {
			return st
		}
	}
	return unknown
}

func nanoseconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

// sameStatus reports whether two statuses tell the same.
func sameStatus(a, b *event.Status) bool {
	if a == nil || b == nil {
		return a == b
	}
	x, y := *a, *b
	if !x.StartedAt.Equal(y.StartedAt) || !x.FinishedAt.Equal(y.FinishedAt) ||
		(x.ExitCode == nil) != (y.ExitCode == nil) || x.ExitCode != nil && *x.ExitCode != *y.ExitCode {
		return false
	}
	x.StartedAt, y.StartedAt = time.Time{}, time.Time{}
	x.FinishedAt, y.FinishedAt = time.Time{}, time.Time{}
	x.ExitCode, y.ExitCode = nil, nil
	return x == y
}
