package relist

import "github.com/hybrid-pleg/hybrid-pleg/pkg/event"

// verb is what a transition means, for containers and sandboxes alike.
type verb uint8

const (
	// changed is a transition that is not told.
	changed verb = iota
	wasCreated
	started
	// startedUnseen is a start that no listing showed. It is told, marked as
	// inferred, unless the record has shown the item running before.
	startedUnseen
	died
	removed
)

// transition is one row of the table: what it means that an item was seen in
// state old and then in state new.
type transition struct {
	old, new state
	verbs    []verb
}

// transitions is the kubelet's table (pkg/kubelet/pleg/generic.go, v1.37), with
// these additions: created is a state of its own there as here, but the kubelet
// reads it as unknown, so wherever created stands the row gives the kubelet's
// answer for unknown; wasCreated and startedUnseen are ours. Pairs that have no
// row (no change, or to and from absent alone) mean nothing.
//
// A died is always told after a started, if need be an inferred one: whoever sets
// something up at the one and takes it down at the other never meets half of it.
var transitions = []transition{
	{absent, created, []verb{wasCreated}},
	{absent, running, []verb{started}},
	{absent, exited, []verb{startedUnseen, died}},
	{absent, unknown, []verb{changed}},

	{created, running, []verb{started}},
	{created, exited, []verb{startedUnseen, died}},
	{created, unknown, []verb{changed}},
	{created, absent, []verb{startedUnseen, died, removed}},

	{running, created, []verb{changed}},
	{running, exited, []verb{died}},
	{running, unknown, []verb{changed}},
	{running, absent, []verb{died, removed}},

	{exited, created, []verb{changed}},
	{exited, running, []verb{started}},
	{exited, unknown, []verb{changed}},
	{exited, absent, []verb{removed}},

	{unknown, created, []verb{wasCreated}},
	{unknown, running, []verb{started}},
	{unknown, exited, []verb{startedUnseen, died}},
	{unknown, absent, []verb{startedUnseen, died, removed}},
}

// transitionIndex is transitions by old and new state.
type transitionIndex [numStates][numStates][]verb

func indexTransitions() *transitionIndex {
	var index transitionIndex
	for _, t := range transitions {
		index[t.old][t.new] = t.verbs
	}
	return &index
}

// eventType names the event that a verb makes for a sandbox or a container;
// empty where it makes none.
func (v verb) eventType(sandbox bool) event.Type {
	switch v {
	case wasCreated:
		if !sandbox {
			return event.ContainerCreated
		}
	case started, startedUnseen:
		if sandbox {
			return event.SandboxStarted
		}
		return event.ContainerStarted
	case died:
		if sandbox {
			return event.SandboxDied
		}
		return event.ContainerDied
	case removed:
		if sandbox {
			return event.SandboxRemoved
		}
		return event.ContainerRemoved
	}
	return ""
}

// diff appends to out what it means that rec went to next, and records in rec
// that a start was told. The intermediate states of a compound transition
// (running → exited → absent) are filled in so that each change's From is the
// one before's To.
func (x *transitionIndex) diff(rec *record, next state, out []step) []step {
	from := rec.state
	for _, v := range x[from][next] {
		to := next
		switch v {
		case startedUnseen:
			if rec.ran {
				continue
			}
			to = running
		case died:
			to = exited
		}
		if v == started || v == startedUnseen {
			rec.ran = true
		}
		out = append(out, step{rec: rec, verb: v, from: from, to: to})
		from = to
	}
	return out
}

// step is a change before it has its order and its details.
type step struct {
	rec      *record
	verb     verb
	from, to state
}
