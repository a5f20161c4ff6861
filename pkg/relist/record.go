package relist

import (
	"slices"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// record is what the store knows of one container or sandbox. The pointers to
// event values are shared with the changes made of it, which is why those values
// are never altered, only replaced.
//
// A record is as large as a cache line. Applying an observation visits each once,
// in no order, and most of its time goes into fetching them.
type record struct {
	pod *podRecord
	// sandbox is the sandbox itself, or the one the container belongs to.
	sandbox *event.Sandbox
	// container is nil for a sandbox.
	container *event.Container
	// home is the sandbox's own record; nil where no listing ever showed it.
	home      *record
	createdAt int64 // Unix nanoseconds, the runtime's clock
	// gen is the last application of an observation that showed the item, and
	// next the state shown.
	gen uint64
	// added is the application that put the record into its pod.
	added uint64
	state state
	next  state
	// ran: a start has been told, so none is to be inferred.
	ran bool
	// labelled: a sandbox that carries the kubelet's UID label, so that it can be
	// listed by it.
	labelled bool
	// relabelled: the observation being applied shows other labels or annotations.
	relabelled bool
	// restored: no listing of this process has shown the item yet.
	restored bool
}

func (r *record) id() string {
	if r.container != nil {
		return r.container.ID
	}
	return r.sandbox.ID
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
	// applied is the last application of an observation to this pod.
	applied uint64
}

// remove takes a record out; what becomes of it is for the caller to see to.
func (p *podRecord) remove(rec *record) {
	p.records = slices.DeleteFunc(p.records, func(r *record) bool { return r == rec })
}

func (r *record) sandboxID() string {
	if r.sandbox == nil {
		return ""
	}
	return r.sandbox.ID
}

func (s *Store) newSandboxRecord(sb *runtimeapi.PodSandbox, labelled bool) *record {
	rec := &record{createdAt: sb.CreatedAt, labelled: labelled}
	var valid bool
	if rec.sandbox, valid = s.newSandbox(sb); !valid {
		s.opts.OnAnomaly(AnomalyInvalidUTF8)
	}
	rec.home = rec
	return rec
}

func (s *Store) newContainerRecord(c *runtimeapi.Container, home *record) *record {
	rec := &record{createdAt: c.CreatedAt, home: home}
	rec.container = &event.Container{
		ID:      c.Id,
		Name:    s.texts.share(s.text(c.GetMetadata().GetName())),
		Attempt: c.GetMetadata().GetAttempt(),
		Image:   s.texts.share(s.text(imageName(c))),
	}
	switch {
	case home != nil:
		rec.sandbox = home.sandbox
	case c.PodSandboxId != "":
		rec.sandbox = &event.Sandbox{ID: s.text(c.PodSandboxId)}
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
