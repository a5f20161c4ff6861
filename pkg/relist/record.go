package relist

import (
	"time"
	"unique"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// record is what the store knows of one container or sandbox. The pointers to
// event values are shared with the changes made of it, which is why those values
// are never altered, only replaced.
type record struct {
	id  string
	pod *podRecord
	// sandbox is the sandbox itself, or the one the container belongs to.
	sandbox *event.Sandbox
	// container is nil for a sandbox.
	container *event.Container
	// home is the sandbox's own record; nil where no listing ever showed it.
	home      *record
	createdAt int64 // Unix nanoseconds, the runtime's clock
	// missingSince is the stamp of the first observation that lacked the item
	// although the kernel showed it alive; 0 when it is not missing.
	missingSince time.Duration
	// gen is the last application of an observation that showed the item, and
	// next the state shown.
	gen   uint64
	state state
	next  state
	// ran: a start has been told, so none is to be inferred.
	ran bool
}

// podRecord groups the records of one pod. It exists only while it has records.
type podRecord struct {
	pod     event.Pod
	records []*record
	// stamp is when the last observation applied to this pod was begun.
	stamp time.Duration
	// gen and seen count the records shown by the observation being applied.
	gen  uint64
	seen int
	// dirty: the observation being applied shows a change.
	dirty bool
	// labelled: every sandbox carries the kubelet's UID label, so that the pod's
	// sandboxes can be listed by it.
	labelled bool
}

func (r *record) sandboxID() string {
	if r.sandbox == nil {
		return ""
	}
	return r.sandbox.ID
}

func (r *record) sandboxCreatedAt() int64 {
	switch {
	case r.container == nil:
		return r.createdAt
	case r.home != nil:
		return r.home.createdAt
	default:
		return 0
	}
}

func newSandboxRecord(s *runtimeapi.PodSandbox) *record {
	rec := &record{id: s.Id, createdAt: s.CreatedAt}
	rec.sandbox = &event.Sandbox{ID: s.Id, Attempt: s.GetMetadata().GetAttempt()}
	rec.home = rec
	return rec
}

// newContainerRecord shares names and images among records: a node runs many
// containers of few images.
func newContainerRecord(c *runtimeapi.Container, home *record) *record {
	rec := &record{id: c.Id, createdAt: c.CreatedAt, home: home}
	rec.container = &event.Container{
		ID:      c.Id,
		Name:    shared(c.GetMetadata().GetName()),
		Attempt: c.GetMetadata().GetAttempt(),
		Image:   shared(imageName(c)),
	}
	switch {
	case home != nil:
		rec.sandbox = home.sandbox
	case c.PodSandboxId != "":
		rec.sandbox = &event.Sandbox{ID: c.PodSandboxId}
	}
	return rec
}

// imageName prefers the name the user asked for; runtimes put the resolved
// reference in Image and the name beside it (cri-api, since 1.30).
func imageName(c *runtimeapi.Container) string {
	if name := c.GetImage().GetUserSpecifiedImage(); name != "" {
		return name
	}
	if name := c.GetImage().GetImage(); name != "" {
		return name
	}
	return c.GetImageRef()
}

func shared(s string) string { return unique.Make(s).Value() }
