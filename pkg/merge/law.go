package merge

import (
	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/relist"
)

// Reason says why a change with a type was not told.
type Reason uint8

// The reasons. The zero Reason means that nothing stands against telling.
const (
	// ReasonRepeated: the same type was told of this ID before. Normal when a
	// container turns up again after the runtime could not tell its state, and
	// for an ID that ran a second time.
	ReasonRepeated Reason = iota + 1
	// ReasonOutOfOrder: a later step of this ID's life was told before, as when an
	// ID is seen created after it was seen running.
	ReasonOutOfOrder
	// ReasonAfterRemoval: the ID was told as removed. A runtime that loses sight of
	// a container for a while and lists it again causes this.
	ReasonAfterRemoval
	// ReasonMalformed: the type is not known, or the change lacks the container,
	// sandbox or pod that its type is about.
	ReasonMalformed

	reasons = iota + 1 // how many values a Reason has, zero included
)

// Reasons returns every reason that a change can be suppressed for.
func Reasons() []Reason {
	return []Reason{ReasonRepeated, ReasonOutOfOrder, ReasonAfterRemoval, ReasonMalformed}
}

// String returns the reason as a metric label holds it; empty for the zero
// Reason.
func (r Reason) String() string {
	switch r {
	case ReasonRepeated:
		return "repeated"
	case ReasonOutOfOrder:
		return "out-of-order"
	case ReasonAfterRemoval:
		return "after-removal"
	case ReasonMalformed:
		return "malformed"
	default:
		return ""
	}
}

// told is what has been told of one container or sandbox: a bit for each step,
// the earlier step in the lower bit.
type told uint8

const (
	toldCreated told = 1 << iota
	toldStarted
	toldDied
	toldRemoved
)

// judge is the law: whether step may be told of an item of which t was told. A
// PodSync has step 0.
func (t told) judge(step told) Reason {
	switch {
	case t&toldRemoved != 0:
		return ReasonAfterRemoval
	case step == 0:
		return 0
	case t&step != 0:
		return ReasonRepeated
	case t > step: // step's bit is not set, so a higher one is
		return ReasonOutOfOrder
	default:
		return 0
	}
}

// state is the state that the events told of an item add up to, as long as it is
// there.
func (t told) state() state {
	switch {
	case t&toldDied != 0:
		return stateExited
	case t&toldStarted != 0:
		return stateRunning
	case t&toldCreated != 0:
		return stateCreated
	default:
		return stateUnknown
	}
}

// kind says what a change is about.
type kind uint8

const (
	kindPod kind = iota // only a PodSync is about a whole pod
	kindContainer
	kindSandbox
)

// steps gives each type that changes a state its place in the life of an item.
func steps(t event.Type) (kind, told, bool) {
	switch t {
	case event.ContainerCreated:
		return kindContainer, toldCreated, true
	case event.ContainerStarted:
		return kindContainer, toldStarted, true
	case event.ContainerDied:
		return kindContainer, toldDied, true
	case event.ContainerRemoved:
		return kindContainer, toldRemoved, true
	case event.SandboxStarted:
		return kindSandbox, toldStarted, true
	case event.SandboxDied:
		return kindSandbox, toldDied, true
	case event.SandboxRemoved:
		return kindSandbox, toldRemoved, true
	default:
		return 0, 0, false
	}
}

// subject is what a change is about: one item, or a pod. step is 0 for a change
// that has no step to tell: a PodSync or one without a type.
type subject struct {
	kind kind
	id   string
	step told
}

// subjectOf reads c's subject; ok is false when c is malformed.
func subjectOf(c *relist.Change) (s subject, ok bool) {
	k, step, isStep := steps(c.Type)
	if !isStep {
		if c.Type != "" && c.Type != event.PodSync {
			return subject{}, false
		}
		switch {
		case c.Container != nil:
			k = kindContainer
		case c.Type == event.PodSync:
			return subject{kind: kindPod, id: c.Pod.UID}, c.Pod.UID != ""
		default:
			k = kindSandbox
		}
	}
	// A sandbox change that names a container is refused rather than guessed at.
	if (k == kindContainer) != (c.Container != nil) || k == kindSandbox && c.Sandbox == nil {
		return subject{}, false
	}
	id := c.ItemID()
	return subject{kind: k, id: id, step: step}, id != ""
}
