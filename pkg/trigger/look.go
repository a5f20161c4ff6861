package trigger

import (
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
)

// Reason says why a look was decided on.
type Reason string

// The reasons.
const (
	// ReasonStartup: nothing has been listed yet.
	ReasonStartup Reason = "startup"
	// ReasonPeriodic: the period is over.
	ReasonPeriodic Reason = "periodic"
	// ReasonSignal: a signal announced a change.
	ReasonSignal Reason = "signal"
	// ReasonLost: signals were lost.
	ReasonLost Reason = "lost"
	// ReasonSourceUp: a source works from now on, and may have missed what was
	// before.
	ReasonSourceUp Reason = "source_up"
	// ReasonRequest: the program asked for it.
	ReasonRequest Reason = "request"
)

// Look is a decision to relist one pod, or all when PodUID is empty.
type Look struct {
	PodUID string
	Reason Reason
	// Reinspect asks for a PodSync if nothing turns out to have changed.
	Reinspect bool
	// Expect are the containers of which a start or an end was announced and is now
	// expected to show.
	Expect []string

	number uint64
	hints  map[string]Hint
}

// Hint is the signal that a change is put down to.
type Hint struct {
	Source SourceName
	At     time.Time
}

// Hint says which signal made for this look, as far as a container or sandbox of
// a pod is concerned: one about itself, else one about its pod.
func (l Look) Hint(podUID, itemID string) (Hint, bool) {
	if h, ok := l.hints[itemID]; ok {
		return h, true
	}
	h, ok := l.hints[podUID]
	return h, ok
}

// Looked is what came of a [Look].
type Looked struct {
	Look Look
	// At is when the observation was begun: it shows what had happened by then.
	At   time.Time
	Took time.Duration
	// Found are the containers and sandboxes whose state changed.
	Found []Found
	// Err is why nothing could be listed, Unavailable that the runtime does not
	// answer at all.
	Err         error
	Unavailable bool
}

// Found is one change of state that a look found.
type Found struct {
	ID    string
	State event.State
}

// View is what the scheduler asks of the records. It is called from the
// scheduler's goroutine.
type View interface {
	// State is the recorded state; non-existent without a record.
	State(id string) event.State
	// Seen reports whether a listing has ever shown the container or sandbox.
	Seen(id string) bool
	// PodOf is the UID of the pod that a container or sandbox belongs to; empty
	// without a record.
	PodOf(id string) string
	// HasPod reports whether there are records of the pod.
	HasPod(uid string) bool
}
