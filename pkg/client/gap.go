package client

import (
	"slices"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/merge"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/relist"
)

// gap is what lies between the caller's place, from which the daemon can't go on, and
// that of a snapshot. The daemon's journal tells what happened in it, as far as it
// reaches back, and the snapshot how it ended.
type gap struct {
	pods []event.PodStatus
	end  merge.Token
	// reading: the journal is being read.
	reading bool
	// events are those of the journal that the caller does not have.
	events []*event.Event
	// joined: the journal reaches back to what the caller has, so events are all that
	// happened since.
	joined bool
}

// journalTries is how often the journal is read for one gap: it may move on faster
// than its reading begins.
const journalTries = 3

// wantsJournal reports whether the watch is to be ended, and one begun where
// readJournal says.
func (l *ledger) wantsJournal() bool { return l.gap != nil && !l.gap.reading }

// readJournal says from where the daemon is asked next, whose journal begins at
// oldest.
func (l *ledger) readJournal(oldest merge.Token) (since merge.Token) {
	l.tries++
	if oldest.Sequence > l.gap.end.Sequence {
		l.gap = nil // it has moved on beyond the snapshot: another one is needed
		return l.token
	}
	l.gap.reading, l.gap.joined = true, l.passed.has(oldest)
	return oldest
}

// takePast takes what the daemon sends of its journal, up to the first that is beyond
// the gap.
func (l *ledger) takePast(u Update) []Update {
	g := l.gap
	if u.Kind == KindEvent && u.Token.Sequence <= g.end.Sequence {
		l.takeOld(u.Event)
	}
	if u.Kind != KindSynced && u.Token.Sequence < g.end.Sequence {
		return nil
	}
	out := l.closeGap(g)
	if u.Token.Sequence > g.end.Sequence {
		out = append(out, l.takeNext(u)...)
	}
	return out
}

// takeOld keeps an event of the journal unless the caller has it or began after it.
// To tell that is not left to the law, which lets each PodSync through and has nothing
// against a container that came and went before the caller's first snapshot.
func (l *ledger) takeOld(e *event.Event) {
	g := l.gap
	switch at, met := l.passed.of(e.Epoch); {
	case met && e.Sequence <= at:
		g.events, g.joined = nil, true // who is past it is past all before it
	case !met && !g.joined && e.Epoch != g.end.Epoch && e.Sequence <= l.began:
		// Of a daemon that the caller did not meet: one of before its beginning, as far
		// as can be seen. To be wrong takes two daemons killed in a row, the one met
		// first before it had written anything.
	default:
		g.events = append(g.events, e)
	}
}

// closeGap hands on what happened in the gap, and moves to its end. What is older than
// the events comes first, so that all is in the order in which it happened as far as
// that is known.
func (l *ledger) closeGap(g *gap) []Update {
	l.gap = nil
	var told []*event.Event
	known := l.told.Pods()
	if g.end.Epoch != l.token.Epoch {
		g.leaveOutStrangers(ids(known))
	}
	if len(g.events) > 0 {
		told = l.compare(known, g.start(known), g.end)
		for _, e := range g.events {
			if l.told.tell(e) {
				told = append(told, e)
			}
		}
	}
	told = append(told, l.compare(l.told.Pods(), g.pods, g.end)...)
	var out []Update
	for _, e := range told {
		if l.wanted(e) {
			// With the old token: going on from it leads to this gap again. Whoever went
			// on from an event's own would not be told what only the snapshot shows.
			out = append(out, Update{Kind: KindEvent, Event: e, Token: l.token})
		}
	}
	l.lossy, l.tries = !g.joined, 0
	return append(out, l.bookmark(g.end)...)
}

// leaveOutStrangers drops the events of what was there before the first of them and the
// caller does not know. A killed daemon had told that it was removed, to the caller or
// before it began, and its successor tells that again. Nothing is known here of what was
// removed before the stream began.
func (g *gap) leaveOutStrangers(known map[string]bool) {
	strangers := make(map[string]bool)
	g.events = slices.DeleteFunc(g.events, func(e *event.Event) bool {
		id := e.ItemID()
		stranger, seen := strangers[id]
		if !seen {
			stranger = id != "" && !known[id] && !begins(e)
			strangers[id] = stranger
		}
		return stranger
	})
}

// compare makes events, at a place, of the differences that the law allows to tell.
// They have no number of their own.
func (l *ledger) compare(old, now []event.PodStatus, at merge.Token) []*event.Event {
	var events []*event.Event
	for _, pc := range relist.Compare(old, now, l.now()) {
		for i := range pc.Changes {
			pc.Changes[i].Detection.FoundBy = FoundBySnapshot
		}
		for _, e := range l.told.log.Publish(pc.Changes) {
			e.Epoch, e.Sequence = at.Epoch, 0
			if e.Type == event.PodSync {
				e.ID = e.Container.ID + "/" + string(e.Type) + "/" + at.String()
			}
			events = append(events, &e)
		}
	}
	return events
}

// start returns the pods as they were before the first of the events: of what no event
// is about, as it is in the snapshot, and of the rest as its first event shows. known
// are the pods as the caller knows them.
func (g *gap) start(known []event.PodStatus) []event.PodStatus {
	first := make(map[string]*event.Event)
	for _, e := range g.events {
		if id := e.ItemID(); first[id] == nil {
			first[id] = e
		}
	}
	pods := pick(g.pods, func(id string) bool { return first[id] == nil })
	// Before a creation there was nothing, and before a start no more than that. Where
	// the caller knows more, the daemon had told it before it was killed.
	pods = append(pods, pick(known, func(id string) bool { return first[id] != nil && stateBefore(first[id]) == "" })...)
	have := ids(known)
	for _, e := range g.events {
		id := e.ItemID()
		if state := stateBefore(e); state != "" && first[id] == e {
			pods = append(pods, alone(e, state, have[id]))
		}
	}
	return pods
}

// begins reports whether an event may be the first of its item's.
func begins(e *event.Event) bool {
	switch e.Type {
	case event.ContainerCreated:
		return true
	case event.ContainerStarted, event.SandboxStarted:
		return e.From == "" || e.From == event.StateNonExistent
	default:
		return false
	}
}

// stateBefore is the state that an event's item must have been in before; empty where
// it need not have been there.
func stateBefore(e *event.Event) event.State {
	switch {
	case e.ItemID() == "":
		return ""
	case e.Type == event.ContainerDied, e.Type == event.SandboxDied:
		return event.StateRunning
	case e.Type == event.ContainerRemoved, e.Type == event.SandboxRemoved:
		return event.StateExited
	case e.Type == event.PodSync:
		return e.To
	default:
		return ""
	}
}

// alone is a pod with nothing but an event's item. The event's status goes with it
// only where the caller does not know the item: it would seem to be news before the
// event is told.
func alone(e *event.Event, state event.State, known bool) event.PodStatus {
	p := event.PodStatus{Pod: e.Pod}
	if e.Container == nil {
		p.Sandboxes = []event.SandboxStatus{{Sandbox: *e.Sandbox, State: state, CreatedAt: e.CreatedAt}}
		return p
	}
	c := event.ContainerStatus{Container: *e.Container, State: state, CreatedAt: e.CreatedAt}
	if e.Sandbox != nil {
		c.SandboxID = e.Sandbox.ID
	}
	if !known {
		c.Status = e.Status
	}
	p.Containers = []event.ContainerStatus{c}
	return p
}

// ids are those of the items of pods.
func ids(pods []event.PodStatus) map[string]bool {
	out := make(map[string]bool)
	for i := range pods {
		for j := range pods[i].Sandboxes {
			out[pods[i].Sandboxes[j].Sandbox.ID] = true
		}
		for j := range pods[i].Containers {
			out[pods[i].Containers[j].Container.ID] = true
		}
	}
	return out
}

// pick returns the pods with those of their items whose IDs are wanted.
func pick(pods []event.PodStatus, want func(id string) bool) []event.PodStatus {
	var out []event.PodStatus
	for i := range pods {
		p := event.PodStatus{Pod: pods[i].Pod}
		for _, s := range pods[i].Sandboxes {
			if want(s.Sandbox.ID) {
				p.Sandboxes = append(p.Sandboxes, s)
			}
		}
		for _, c := range pods[i].Containers {
			if want(c.Container.ID) {
				p.Containers = append(p.Containers, c)
			}
		}
		out = append(out, p)
	}
	return out
}
