package relist

import (
	"cmp"
	"slices"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
)

// State says what the records hold of a container or sandbox:
// [event.StateNonExistent] for one that is not there.
func (s *Store) State(id string) event.State {
	s.mu.Lock()
	defer s.mu.Unlock()
	if rec := s.items.get(id); rec != nil {
		return rec.state.event()
	}
	return event.StateNonExistent
}

// PodOf says which pod a container or sandbox belongs to; empty when it has no
// record.
func (s *Store) PodOf(id string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if rec := s.items.get(id); rec != nil {
		return rec.pod.pod.UID
	}
	return ""
}

// Seen reports whether a listing has ever shown a container or sandbox. Of what is
// gone the last 16,384 IDs are remembered, pods included.
func (s *Store) Seen(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.items.get(id) != nil {
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

// generation counts the observations applied.
func (s *Store) generation() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gen
}

// podScope is what is known of a pod before it is listed: how to find all of it.
type podScope struct {
	gen uint64
	// sandboxes are the sandboxes that its records are or belong to, done those whose
	// containers have been listed.
	sandboxes []podSandbox
	done      []string
	// byLabel: the kubelet's UID label may find sandboxes of it; byID are those
	// that do not carry it.
	byLabel bool
	byID    []string
	// loose are containers that name no sandbox.
	loose []string
}

// podSandbox is a sandbox of a pod, and its recorded state; absent without a
// record of its own.
type podSandbox struct {
	id    string
	state state
}

// scope says how a pod is to be listed. An unknown one is taken to be labelled.
func (s *Store) scope(uid string) podScope {
	s.mu.Lock()
	defer s.mu.Unlock()
	sc := podScope{gen: s.gen, byLabel: true}
	p := s.pods[uid]
	if p == nil {
		return sc
	}
	labelled := false
	for _, rec := range p.records {
		id := rec.sandboxID()
		switch {
		case id == "":
			sc.loose = append(sc.loose, rec.id())
		case !slices.ContainsFunc(sc.sandboxes, func(sb podSandbox) bool { return sb.id == id }):
			sb := podSandbox{id: id}
			if home := s.items.get(id); home != nil {
				sb.state = home.state
			}
			sc.sandboxes = append(sc.sandboxes, sb)
		}
		if rec.container == nil {
			if rec.labelled {
				labelled = true
			} else {
				sc.byID = append(sc.byID, rec.id())
			}
		}
	}
	sc.byLabel = labelled || len(sc.byID) == 0
	return sc
}

// container returns the recorded state of a container; ok is false if there is no
// record of a container of that ID.
func (s *Store) container(id string) (st state, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if rec := s.items.get(id); rec != nil && rec.container != nil {
		return rec.state, true
	}
	return absent, false
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

// podAsked makes the change that says that a pod was looked at as asked. It carries
// the newest sandbox, since that has the pod's labels. ok is false for a pod without
// records.
func (s *Store) podAsked(uid string) (c Change, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.pods[uid]
	if p == nil {
		return Change{}, false
	}
	var newest *record
	for _, rec := range p.records {
		if rec.container == nil && (newest == nil || cmp.Or(
			cmp.Compare(rec.sandbox.Attempt, newest.sandbox.Attempt),
			cmp.Compare(rec.createdAt, newest.createdAt),
		) > 0) {
			newest = rec
		}
	}
	c = Change{Type: event.PodSync, Pod: p.pod}
	if newest != nil {
		c.Sandbox = newest.sandbox
	}
	return c, true
}

// podSync makes the change that says that a container's details can be read now;
// it is found as the change was that lacked them. ok is false when the container
// has no record any more.
func (s *Store) podSync(id string, status *event.Status, foundBy event.FoundBy) (c Change, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rec := s.items.get(id)
	if rec == nil || rec.container == nil {
		return Change{}, false
	}
	c = step{rec: rec, from: rec.state, to: rec.state}.change(time.Now())
	c.Type = event.PodSync
	c.Detection.FoundBy = foundBy
	c.Status = status
	if rec.state != exited {
		c.Status = beforeExit(status)
	}
	return c, true
}
