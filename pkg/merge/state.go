package merge

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
)

// State is all that a log must keep to go on after a restart as if there had been
// none: what it holds at one moment, as plain data. What it points to is shared with
// the log: read it, don't write to it.
type State struct {
	// Epochs are those that a token can still resume of, one after another, the last
	// being that of the log. Its Last is the sequence of the last event, which the
	// journal need not have any more.
	Epochs []Epoch
	// Events are the journal, one after another, up to that last one.
	Events []*event.Event
	// Items are all containers and sandboxes that are there, in no order.
	Items []ItemState
	// Removed stands for the IDs that were removed, the oldest first.
	Removed []Tombstone
}

// ItemState is a container or sandbox that is there.
type ItemState struct {
	Pod event.Pod `json:"pod"`
	// Sandbox is the sandbox itself, or the one that the container belongs to.
	Sandbox *event.Sandbox `json:"sandbox,omitempty"`
	// Container is nil for a sandbox.
	Container *event.Container `json:"container,omitempty"`
	CreatedAt time.Time        `json:"createdAt,omitzero"`
	// Status is the last one told; a container's only.
	Status *event.Status `json:"status,omitempty"`
	// Told are the types told of it, and Seen how it was last seen.
	Told []event.Type `json:"told,omitempty"`
	Seen event.State  `json:"seen"`
}

// Key says which item s is of.
func (s *ItemState) Key() ItemKey {
	switch {
	case s.Container != nil:
		return ItemKey{Container: true, ID: s.Container.ID}
	case s.Sandbox != nil:
		return ItemKey{ID: s.Sandbox.ID}
	default:
		return ItemKey{}
	}
}

// ItemKey names a container or a sandbox.
type ItemKey struct {
	Container bool
	ID        string
}

// Tombstone stands for one removed ID. It says nothing by itself.
type Tombstone [16]byte

// last is the sequence of the last event.
func (s *State) last() uint64 {
	if len(s.Epochs) == 0 {
		return 0
	}
	return s.Epochs[len(s.Epochs)-1].Last
}

// Check says what is wrong with a state that no log can have been in.
func (s *State) Check() error {
	return errors.Join(s.checkEpochs(), s.checkEvents(), s.checkItems())
}

func (s *State) checkEpochs() error {
	for i, e := range s.Epochs {
		if err := checkEpoch(e.Name); err != nil {
			return err
		}
		if e.First == 0 || e.Last+1 < e.First {
			return fmt.Errorf("the epoch %s has the events %d to %d", e.Name, e.First, e.Last)
		}
		if i > 0 && e.First != s.Epochs[i-1].Last+1 {
			return fmt.Errorf("the epoch %s begins with event %d, the one before ends with %d", e.Name, e.First, s.Epochs[i-1].Last)
		}
		if slices.ContainsFunc(s.Epochs[:i], func(other Epoch) bool { return other.Name == e.Name }) {
			return fmt.Errorf("the epoch %s is there twice", e.Name)
		}
	}
	return nil
}

func (s *State) checkEvents() error {
	for i, e := range s.Events {
		if e == nil {
			return fmt.Errorf("event %d of %d is none", i, len(s.Events))
		}
		if want := s.last() - uint64(len(s.Events)-1-i); e.Sequence != want || want == 0 {
			return fmt.Errorf("event %d is where %d should be", e.Sequence, want)
		}
		// Of an epoch that is not known any more, nothing can be said.
		of := slices.IndexFunc(s.Epochs, func(p Epoch) bool { return p.First <= e.Sequence && e.Sequence <= p.Last })
		if of >= 0 && s.Epochs[of].Name != e.Epoch {
			return fmt.Errorf("event %d is of the epoch %q, not %s", e.Sequence, e.Epoch, s.Epochs[of].Name)
		}
		kind, _, isStep := steps(e.Type)
		switch {
		case !isStep && e.Type != event.PodSync:
			return fmt.Errorf("event %d has the type %q", e.Sequence, e.Type)
		case isStep && (kind == kindContainer) != (e.Container != nil), kind == kindSandbox && e.Sandbox == nil:
			return fmt.Errorf("event %d, a %s, lacks what it is about", e.Sequence, e.Type)
		}
	}
	return nil
}

func (s *State) checkItems() error {
	seen := make(map[ItemKey]struct{}, len(s.Items))
	for i := range s.Items {
		key := s.Items[i].Key()
		if key.ID == "" {
			return fmt.Errorf("item %d of %d has no ID", i, len(s.Items))
		}
		if _, twice := seen[key]; twice {
			return fmt.Errorf("%s is there twice", key.ID)
		}
		seen[key] = struct{}{}
		if _, err := s.Items[i].told(); err != nil {
			return err
		}
	}
	return nil
}

// told reads what was told of the item.
func (s *ItemState) told() (told, error) {
	var t told
	for _, typ := range s.Told {
		kind, step, isStep := steps(typ)
		if !isStep || step == toldRemoved || (kind == kindContainer) != (s.Container != nil) {
			return 0, fmt.Errorf("of %s, which is there, a %q was told", s.Key().ID, typ)
		}
		t |= step
	}
	return t, nil
}

// types lists what was told of a container or a sandbox.
func (t told) types(container bool) []event.Type {
	types := make([]event.Type, 0, 3)
	add := func(step told, ofContainer, ofSandbox event.Type) {
		switch {
		case t&step == 0:
		case container:
			types = append(types, ofContainer)
		case ofSandbox != "":
			types = append(types, ofSandbox)
		}
	}
	add(toldCreated, event.ContainerCreated, "")
	add(toldStarted, event.ContainerStarted, event.SandboxStarted)
	add(toldDied, event.ContainerDied, event.SandboxDied)
	return types
}

// restore makes the model and the journal what s says. s was checked.
func (l *Log) restore(s *State) {
	for i := range s.Items {
		l.model.restore(&s.Items[i])
	}
	for _, stone := range s.Removed[max(0, len(s.Removed)-l.model.removed.limit):] {
		l.model.removed.put(stone)
	}
	l.journal.restore(s.last(), s.Events)
}

func (m *model) restore(s *ItemState) {
	told, _ := s.told() // checked
	it := &item{
		container: s.Container,
		sandbox:   s.Sandbox,
		status:    s.Status,
		createdAt: unixNano(s.CreatedAt),
		told:      told,
		seen:      stateOf(s.Seen),
	}
	m.join(it, s.Pod)
	if key := s.Key(); key.Container {
		m.containers[key.ID] = it
	} else {
		m.sandboxes[key.ID] = it
	}
}
