package relist

import (
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
)

// Change is one difference between two observations of a pod: a container or a
// sandbox went from one state to another. What of it is told, and whether it was
// told before, is for the merge stage to decide.
type Change struct {
	// Type is the event that the transition makes; empty for one that is not told:
	// to and from the unknown state, and, from a state to itself, that a sandbox's
	// labels or annotations are others now.
	Type event.Type
	Pod  event.Pod
	// Sandbox is the sandbox that changed, or the one the container belongs to; with
	// a PodSync about a whole pod, its newest.
	Sandbox *event.Sandbox
	// Container is nil when a sandbox changed.
	Container *event.Container
	// CreatedAt is when the runtime made the container or sandbox.
	CreatedAt time.Time

	From, To event.State

	Status        *event.Status
	StatusMissing event.StatusMissing
	Detection     event.Detection
	Inferred      bool
}

// ItemID is the ID of what changed: the container's or, for a sandbox change,
// the sandbox's. It is empty for a PodSync about a whole pod.
func (c *Change) ItemID() string {
	switch {
	case c.Container != nil:
		return c.Container.ID
	case c.Type == event.PodSync || c.Sandbox == nil:
		return ""
	default:
		return c.Sandbox.ID
	}
}
