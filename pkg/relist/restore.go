package relist

import (
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Restored is a container or sandbox as it was known before a restart. The event
// values are shared: they are not written to afterwards.
type Restored struct {
	Pod event.Pod
	// Sandbox is the sandbox itself, or the one the container belongs to.
	Sandbox *event.Sandbox
	// Container is nil for a sandbox.
	Container *event.Container
	CreatedAt time.Time
	// State is how it was last seen, and Started says whether a start was told of it.
	State   event.State
	Started bool
	// Status is what was last told of a container.
	Status *event.Status
}

// Restore puts in what was known before a restart, so that the first listing is
// compared with that: what has changed since is told, and what has not is not.
// removed are IDs that were removed before. It must come before the first relist.
func (e *Engine) Restore(items []Restored, removed []string) {
	e.store.restore(items, removed)
	for i := range items {
		if c := items[i].Container; c != nil && items[i].State != event.StateExited {
			e.starts.keep(c.ID, items[i].Status)
		}
	}
}

func (s *Store) restore(items []Restored, removed []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// The sandboxes first: a container is in the pod of its sandbox.
	for i := range items {
		if items[i].Container == nil {
			s.restoreSandbox(&items[i])
		}
	}
	for i := range items {
		if items[i].Container != nil {
			s.restoreContainer(&items[i])
		}
	}
	for _, id := range removed {
		if s.items.get(id) == nil {
			s.removed.add(id, 0, 0)
		}
	}
}

func (s *Store) restoreSandbox(r *Restored) {
	if r.Sandbox == nil || !s.restorable(r.Sandbox.ID) {
		return
	}
	// labelled stays false until a listing says otherwise: the sandbox is then
	// asked for by its ID, which always finds it.
	rec := r.record()
	rec.sandbox = r.Sandbox
	rec.home = rec
	s.add(s.pod(r.Pod), rec)
}

func (s *Store) restoreContainer(r *Restored) {
	if !s.restorable(r.Container.ID) {
		return
	}
	rec := r.record()
	rec.container, rec.sandbox = r.Container, r.Sandbox
	pod := r.Pod
	if id := rec.sandboxID(); id != "" {
		if home := s.items.get(id); home != nil && home.container == nil {
			rec.home, rec.sandbox, pod = home, home.sandbox, home.pod.pod
		} else {
			s.orphans[id] = append(s.orphans[id], rec)
		}
	}
	s.add(s.pod(pod), rec)
}

func (s *Store) restorable(id string) bool { return id != "" && s.items.get(id) == nil }

func (r *Restored) record() *record {
	rec := &record{state: eventState(r.State), ran: r.Started, restored: true}
	if !r.CreatedAt.IsZero() {
		rec.createdAt = r.CreatedAt.UnixNano()
	}
	return rec
}

// refreshSandbox takes what is not kept over a restart, or may have been read
// differently before it, from the first listing that shows the sandbox.
func (s *Store) refreshSandbox(rec *record, sb *runtimeapi.PodSandbox) {
	rec.restored = false
	rec.createdAt = sb.CreatedAt
	s.relabel(rec, sb)
	var pod event.Pod
	pod, rec.labelled = s.sandboxPod(sb)
	s.pod(event.Pod{UID: rec.pod.pod.UID, Namespace: pod.Namespace, Name: pod.Name})
}

// refreshContainer is refreshSandbox for a container.
func (s *Store) refreshContainer(rec *record, c *runtimeapi.Container) {
	rec.restored = false
	rec.createdAt = c.CreatedAt
	if fresh := s.newContainerRecord(c, rec.home); *fresh.container != *rec.container {
		rec.container = fresh.container
	}
}
