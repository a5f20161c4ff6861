package relist

import (
	"slices"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
)

// State says what the records hold of a container or sandbox:
// [event.StateNonExistent] for one that is not there.
func (s *Store) State(id string) event.State {
	s.mu.Lock()
	defer s.mu.Unlock()
	if rec := s.items[id]; rec != nil {
		return rec.state.event()
	}
	return event.StateNonExistent
}

// PodOf says which pod a container or sandbox belongs to; empty when it has no
// record.
func (s *Store) PodOf(id string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if rec := s.items[id]; rec != nil {
		return rec.pod.pod.UID
	}
	return ""
}

// Seen reports whether a listing has ever shown a container or sandbox. Of those
// that are gone the last 16,384 are remembered.
func (s *Store) Seen(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.items[id] != nil {
		return true
	}
	_, gone := s.removed.at(id)
	return gone
}

// Counts is how much the records hold.
type Counts struct {
	// RunningPods are pods with at least one running sandbox.
	RunningPods int
	// Containers holds every state a container can be listed in, with 0 for one
	// that none is in.
	Containers map[event.State]int
}

// Counts counts the records.
func (s *Store) Counts() Counts {
	c := Counts{Containers: make(map[event.State]int, numStates)}
	for st := created; st < numStates; st++ {
		c.Containers[st.event()] = 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.pods {
		up := false
		for _, rec := range p.records {
			if rec.container != nil {
				c.Containers[rec.state.event()]++
			} else if rec.state == running {
				up = true
			}
		}
		if up {
			c.RunningPods++
		}
	}
	return c
}

// podSandboxes says how the sandboxes of a pod can be listed: by the kubelet's
// label, or one by one. ids are those that are known; an unknown pod has none and
// is taken to be labelled.
func (s *Store) podSandboxes(uid string) (ids []string, labelled bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.pods[uid]
	if p == nil {
		return nil, true
	}
	for _, rec := range p.records {
		if id := rec.sandboxID(); id != "" && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids, p.labelled
}

// Pod names a pod that has records.
func (s *Store) Pod(uid string) (event.Pod, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.pods[uid]; p != nil {
		return p.pod, true
	}
	return event.Pod{}, false
}

// podSync makes the change that says that a container's details can be read now;
// ok is false when it has no record any more.
func (s *Store) podSync(id string) (c Change, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rec := s.items[id]
	if rec == nil || rec.container == nil {
		return Change{}, false
	}
	c = step{rec: rec, from: rec.state, to: rec.state}.change(time.Now())
	c.Type = event.PodSync
	c.Detection.FoundBy = event.FoundEarly
	return c, true
}
