package relist

import (
	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// state is event.State as a byte: records are many and compared often.
type state uint8

const (
	absent state = iota
	created
	running
	exited
	unknown
	numStates
)

func (s state) event() event.State {
	switch s {
	case absent:
		return event.StateNonExistent
	case created:
		return event.StateCreated
	case running:
		return event.StateRunning
	case exited:
		return event.StateExited
	default:
		return event.StateUnknown
	}
}

// behind reports whether s comes before other in the life of an item, which has
// no way back. Unknown is neither before nor after.
func (s state) behind(other state) bool {
	return s != unknown && other != unknown && s < other
}

// containerState reads a container's state; ok is false for a value this version
// does not know. An unset field reads as CREATED, the enumeration's zero.
func containerState(s runtimeapi.ContainerState) (st state, ok bool) {
	switch s {
	case runtimeapi.ContainerState_CONTAINER_CREATED:
		return created, true
	case runtimeapi.ContainerState_CONTAINER_RUNNING:
		return running, true
	case runtimeapi.ContainerState_CONTAINER_EXITED:
		return exited, true
	case runtimeapi.ContainerState_CONTAINER_UNKNOWN:
		return unknown, true
	default:
		return unknown, false
	}
}

// sandboxState is containerState for sandboxes; an unset field reads as READY.
func sandboxState(s runtimeapi.PodSandboxState) (st state, ok bool) {
	switch s {
	case runtimeapi.PodSandboxState_SANDBOX_READY:
		return running, true
	case runtimeapi.PodSandboxState_SANDBOX_NOTREADY:
		return exited, true
	default:
		return unknown, false
	}
}
