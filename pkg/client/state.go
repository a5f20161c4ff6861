package client

import (
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/merge"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/relist"
)

// State is what the updates of a stream add up to: the pods as told so far. Make it
// with [NewState]. It is not safe for concurrent use.
type State struct {
	log *merge.Log
}

// NewState returns the state of a caller that was told nothing yet. For one that went
// on from a token it is what was told since.
func NewState() *State {
	s := &State{}
	s.reset()
	return s
}

// Apply takes an update in.
func (s *State) Apply(u Update) {
	switch u.Kind {
	case KindReset:
		s.reset()
	case KindPod: // nothing was told since the reset
		s.take(relist.Compare(nil, []event.PodStatus{*u.Pod}, time.Time{}), nil)
	case KindEvent:
		s.tell(u.Event)
	}
}

// Pods returns the pods in the order of namespace, name and UID. Read them, don't
// write to them.
func (s *State) Pods() []event.PodStatus { return s.log.Snapshot().Pods }

func (s *State) reset() {
	log, err := merge.New(merge.Options{JournalEvents: 1}) // nobody watches it
	if err != nil {
		panic("client: " + err.Error()) // the options are constant
	}
	s.log = log
}

// tell takes an event in, and reports whether the law allows to tell it.
func (s *State) tell(e *event.Event) bool {
	return len(s.log.Publish([]relist.Change{{
		Type: e.Type, Pod: e.Pod, Sandbox: e.Sandbox, Container: e.Container, CreatedAt: e.CreatedAt,
		From: e.From, To: e.To, Status: e.Status, StatusMissing: e.StatusMissing,
		Detection: e.Detection, Inferred: e.Inferred,
	}})) > 0
}

// adopt takes pods in as they were a moment ago. Of an item that went a step since,
// that step says more.
func (s *State) adopt(pods []event.PodStatus) {
	have := make(map[string]bool)
	for _, p := range s.Pods() {
		// Unknown is one of which there was but a PodSync.
		for i := range p.Containers {
			have[p.Containers[i].Container.ID] = p.Containers[i].State != event.StateUnknown
		}
		for i := range p.Sandboxes {
			have[p.Sandboxes[i].Sandbox.ID] = p.Sandboxes[i].State != event.StateUnknown
		}
	}
	s.take(relist.Compare(nil, pods, time.Time{}), have)
}

// take takes in changes but those of the items that are had better.
func (s *State) take(pods []relist.PodChanges, have map[string]bool) {
	for _, pc := range pods {
		for i := range pc.Changes {
			if !have[pc.Changes[i].ItemID()] {
				s.log.Publish(pc.Changes[i : i+1])
			}
		}
	}
}
