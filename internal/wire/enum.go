package wire

import (
	"errors"
	"fmt"

	hybridplegv1 "github.com/hybrid-pleg/hybrid-pleg/api/hybridpleg/v1"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
)

// ErrUnknownType marks the error for an event of a type that this version does not
// know: a newer server sends it. Skip such an event, and keep its token.
var ErrUnknownType = errors.New("unknown event type")

// table pairs the words of the vocabulary with the numbers of the API. Tables are
// never written to.
type table[W ~string, N ~int32] []struct {
	word   W
	number N
}

// number returns 0, which is "unspecified" in all enumerations, for an unknown word.
func (t table[W, N]) number(word W) N {
	for i := range t {
		if t[i].word == word {
			return t[i].number
		}
	}
	return 0
}

// word returns the empty word for 0, and for a number that this version does not
// know one that names it, such as "unknown-7".
func (t table[W, N]) word(number N) W {
	if number == 0 {
		return ""
	}
	for i := range t {
		if t[i].number == number {
			return t[i].word
		}
	}
	return W(fmt.Sprintf("unknown-%d", number))
}

var types = table[event.Type, hybridplegv1.EventType]{
	{event.ContainerCreated, hybridplegv1.EventType_EVENT_TYPE_CONTAINER_CREATED},
	{event.ContainerStarted, hybridplegv1.EventType_EVENT_TYPE_CONTAINER_STARTED},
	{event.ContainerDied, hybridplegv1.EventType_EVENT_TYPE_CONTAINER_DIED},
	{event.ContainerRemoved, hybridplegv1.EventType_EVENT_TYPE_CONTAINER_REMOVED},
	{event.SandboxStarted, hybridplegv1.EventType_EVENT_TYPE_SANDBOX_STARTED},
	{event.SandboxDied, hybridplegv1.EventType_EVENT_TYPE_SANDBOX_DIED},
	{event.SandboxRemoved, hybridplegv1.EventType_EVENT_TYPE_SANDBOX_REMOVED},
	{event.PodSync, hybridplegv1.EventType_EVENT_TYPE_POD_SYNC},
}

var states = table[event.State, hybridplegv1.State]{
	{event.StateCreated, hybridplegv1.State_STATE_CREATED},
	{event.StateRunning, hybridplegv1.State_STATE_RUNNING},
	{event.StateExited, hybridplegv1.State_STATE_EXITED},
	{event.StateUnknown, hybridplegv1.State_STATE_UNKNOWN},
	{event.StateNonExistent, hybridplegv1.State_STATE_NON_EXISTENT},
}

var missings = table[event.StatusMissing, hybridplegv1.StatusMissing]{
	{event.StatusGone, hybridplegv1.StatusMissing_STATUS_MISSING_GONE},
	{event.StatusLate, hybridplegv1.StatusMissing_STATUS_MISSING_LATE},
	{event.StatusFailed, hybridplegv1.StatusMissing_STATUS_MISSING_FAILED},
}

var foundBys = table[event.FoundBy, hybridplegv1.FoundBy]{
	{event.FoundEarly, hybridplegv1.FoundBy_FOUND_BY_EARLY},
	{event.FoundPeriodic, hybridplegv1.FoundBy_FOUND_BY_PERIODIC},
	{event.FoundStartup, hybridplegv1.FoundBy_FOUND_BY_STARTUP},
}

// Type returns the API's number of a type; unspecified for one there is none for.
func Type(t event.Type) hybridplegv1.EventType { return types.number(t) }

// ToType returns the type of a number. The error wraps [ErrUnknownType].
func ToType(n hybridplegv1.EventType) (event.Type, error) {
	for i := range types {
		if types[i].number == n {
			return types[i].word, nil
		}
	}
	return "", fmt.Errorf("%w: number %d", ErrUnknownType, n)
}

// State returns the API's number of a state; unspecified for the empty one.
func State(s event.State) hybridplegv1.State { return states.number(s) }

// ToState returns the state of a number: empty for unspecified, and
// [event.StateUnknown] for one that this version does not know.
func ToState(n hybridplegv1.State) event.State {
	if n == hybridplegv1.State_STATE_UNSPECIFIED {
		return ""
	}
	for i := range states {
		if states[i].number == n {
			return states[i].word
		}
	}
	return event.StateUnknown
}
