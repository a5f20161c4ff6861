package merge

import (
	"slices"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/relist"
)

// state is the event.State of something that is there, in one byte.
type state uint8

const (
	stateUnknown state = iota
	stateCreated
	stateRunning
	stateExited
)

// stateOf reads non-existent as unknown: an item is there until its removal is
// told.
func stateOf(s event.State) state {
	switch s {
	case event.StateCreated:
		return stateCreated
	case event.StateRunning:
		return stateRunning
	case event.StateExited:
		return stateExited
	default:
		return stateUnknown
	}
}

func (s state) event() event.State {
	switch s {
	case stateCreated:
		return event.StateCreated
	case stateRunning:
		return event.StateRunning
	case stateExited:
		return event.StateExited
	default:
		return event.StateUnknown
	}
}

// item is one container or sandbox that is there: what was told of it, and how it
// was last seen. Its size matters, since there is one for each on the node; the
// strings are those of the change.
type item struct {
	pod       *pod
	container *event.Container // nil for a sandbox
	sandbox   *event.Sandbox   // of a container: the one it belongs to, may be nil
	status    *event.Status
	createdAt int64 // Unix nanoseconds, as the CRI counts; 0 where not known
	told      told
	// seen is told.state() unless a change that was not told said otherwise.
	seen state
}

// pod holds the items of one pod. It lives as long as it has any.
type pod struct {
	name  event.Pod
	items []*item
}

// model is what was told, added up: plain data, changed by apply alone.
type model struct {
	pods       map[string]*pod
	containers map[string]*item
	sandboxes  map[string]*item
	removed    tombstones
	// dirty notes what changes, for a Recorder; nil while nobody wants to know.
	dirty *dirty
}

func newModel(remember int) model {
	return model{
		pods:       make(map[string]*pod),
		containers: make(map[string]*item),
		sandboxes:  make(map[string]*item),
		removed:    newTombstones(remember),
	}
}

// apply takes a change in and says whether it is to be told. A change that is
// neither told nor has a reason is one without a type.
//
// A change that is not told can change no more than an item's state and a
// sandbox's labels, or bring in an item that nothing was told of yet. All else, and
// the end of an item, comes by events, so that watchers can follow.
func (m *model) apply(c *relist.Change) (tell bool, why Reason) {
	s, ok := subjectOf(c)
	if !ok {
		return false, ReasonMalformed
	}
	if s.kind == kindPod {
		return true, 0
	}
	it := m.item(s)
	told := m.told(s, it)
	if c.Type == "" {
		if told != toldRemoved {
			m.see(s, it, c)
		}
		return false, 0
	}
	if why := told.judge(s.step); why != 0 {
		if it != nil && it.seen != s.step.state() {
			it.seen = s.step.state()
			m.dirty.touch(it)
		}
		return false, why
	}
	if s.step == toldRemoved {
		m.remove(s, it)
	} else {
		m.tell(s, it, c)
	}
	return true, 0
}

// see applies a change without a type. An item is never taken away by one: it
// would stay for ever with a watcher that knows it.
func (m *model) see(s subject, it *item, c *relist.Change) {
	if it == nil {
		if c.To == event.StateNonExistent {
			return
		}
		it = m.add(s, c)
	}
	it.seen = stateOf(c.To)
	if s.kind == kindSandbox {
		it.sandbox = c.Sandbox
	}
	m.dirty.touch(it)
}

// tell applies a change that becomes an event and leaves the item there.
func (m *model) tell(s subject, it *item, c *relist.Change) {
	if it == nil {
		it = m.add(s, c)
	} else {
		if it.pod.name.UID != c.Pod.UID {
			m.leave(it)
			m.join(it, c.Pod)
		}
		it.container = c.Container
		it.sandbox = c.Sandbox
	}
	if it.pod.name != c.Pod {
		it.pod.name = c.Pod
		m.dirty.touchAll(it.pod)
	}
	if it.createdAt == 0 {
		it.createdAt = unixNano(c.CreatedAt)
	}
	if c.Status != nil && s.kind == kindContainer { // a sandbox's is not kept
		it.status = c.Status
	}
	if s.step != 0 {
		it.told |= s.step
		it.seen = s.step.state()
	}
	m.dirty.touch(it)
}

func (m *model) add(s subject, c *relist.Change) *item {
	it := &item{container: c.Container, sandbox: c.Sandbox, createdAt: unixNano(c.CreatedAt)}
	m.join(it, c.Pod)
	if s.kind == kindContainer {
		m.containers[s.id] = it
	} else {
		m.sandboxes[s.id] = it
	}
	return it
}

// remove forgets all about an item but that it was removed. it is nil when only
// its removal was seen.
func (m *model) remove(s subject, it *item) {
	if it != nil {
		m.dirty.remove(it)
		m.leave(it)
		if s.kind == kindContainer {
			delete(m.containers, s.id)
		} else {
			delete(m.sandboxes, s.id)
		}
	}
	m.removed.add(s.kind, s.id)
}

func (m *model) item(s subject) *item {
	if s.kind == kindContainer {
		return m.containers[s.id]
	}
	return m.sandboxes[s.id]
}

// told is what was told of an item, be it there or gone.
func (m *model) told(s subject, it *item) told {
	switch {
	case it != nil:
		return it.told
	case m.removed.has(s.kind, s.id):
		return toldRemoved
	default:
		return 0
	}
}

func (m *model) join(it *item, name event.Pod) {
	p := m.pods[name.UID]
	if p == nil {
		p = &pod{name: name}
		m.pods[name.UID] = p
	}
	p.items = append(p.items, it)
	it.pod = p
}

func (m *model) leave(it *item) {
	p := it.pod
	i := slices.Index(p.items, it)
	p.items = slices.Delete(p.items, i, i+1)
	if len(p.items) == 0 {
		delete(m.pods, p.name.UID)
	}
	it.pod = nil
}

func unixNano(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}
