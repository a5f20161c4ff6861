package merge

import (
	"sync/atomic"
	"unsafe"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
)

// journal keeps the last events in a ring. One goroutine at a time appends;
// any number read beside it without a lock: a slot that was used again holds an
// event of another sequence number, and that tells the reader that it came late.
type journal struct {
	slots []atomic.Pointer[event.Event]
	// head is the last event that readers may have, 0 before the first. It is set
	// after the slots, so what is at or below it is either there or gone again.
	head atomic.Uint64

	// The appender's books.
	last     uint64 // the last appended, ahead of head while a batch goes in
	oldest   uint64 // the first that is still kept, last+1 when none is
	bytes    int64  // of the events kept, about
	maxBytes int64
	// sandboxes are those that the events kept refer to. Each is counted once: the
	// events of a pod share it.
	sandboxes map[*event.Sandbox]holding
}

// holding is what the journal holds of one sandbox.
type holding struct {
	events int // that refer to it
	bytes  int64
}

func newJournal(events int, maxBytes int64) *journal {
	return &journal{
		slots:    make([]atomic.Pointer[event.Event], events),
		oldest:   1,
		maxBytes: maxBytes,

		sandboxes: make(map[*event.Sandbox]holding),
	}
}

// append takes in the event that follows the last one. Readers see it after
// reveal.
func (j *journal) append(e *event.Event) {
	if j.last-j.oldest+1 == uint64(len(j.slots)) {
		j.evict()
	}
	j.last++
	j.slot(j.last).Store(e)
	j.bytes += size(e) + j.hold(e.Sandbox)
	// The newest stays, however large: a watcher that keeps up needs it.
	for j.bytes > j.maxBytes && j.oldest < j.last {
		j.evict()
	}
}

// restore makes the journal, which is empty, that of a log whose last event was
// last. events are those that lead up to it; it keeps as many as it may.
func (j *journal) restore(last uint64, events []*event.Event) {
	j.last = last - uint64(len(events))
	j.oldest = j.last + 1
	for _, e := range events {
		j.append(e)
	}
	j.reveal()
}

// from returns the events from that sequence number on that are still kept.
func (j *journal) from(sequence uint64) []*event.Event {
	sequence = max(sequence, j.oldest)
	if sequence > j.last {
		return nil
	}
	events := make([]*event.Event, 0, j.last+1-sequence)
	for ; sequence <= j.last; sequence++ {
		events = append(events, j.slot(sequence).Load())
	}
	return events
}

// reveal shows readers all that was appended.
func (j *journal) reveal() { j.head.Store(j.last) }

// at returns the event of that sequence number, nil when it is gone. The number
// must not be above head.
func (j *journal) at(sequence uint64) *event.Event {
	e := j.slot(sequence).Load()
	if e == nil || e.Sequence != sequence {
		return nil
	}
	return e
}

func (j *journal) evict() {
	slot := j.slot(j.oldest)
	e := slot.Load()
	j.bytes -= size(e) + j.letGo(e.Sandbox)
	slot.Store(nil)
	j.oldest++
}

func (j *journal) slot(sequence uint64) *atomic.Pointer[event.Event] {
	return &j.slots[sequence%uint64(len(j.slots))]
}

// hold notes that one more event refers to the sandbox, and returns how many bytes
// that adds.
func (j *journal) hold(s *event.Sandbox) int64 {
	if s == nil {
		return 0
	}
	h := j.sandboxes[s]
	if h.events++; h.events == 1 {
		h.bytes = sandboxSize(s)
	}
	j.sandboxes[s] = h
	if h.events > 1 {
		return 0
	}
	return h.bytes
}

// letGo undoes a hold, and returns how many bytes are given back.
func (j *journal) letGo(s *event.Sandbox) int64 {
	if s == nil {
		return 0
	}
	h := j.sandboxes[s]
	if h.events--; h.events > 0 {
		j.sandboxes[s] = h
		return 0
	}
	delete(j.sandboxes, s)
	return h.bytes
}

// size is about what an event holds in memory by itself: what it shares with the
// other events of its container is left out, as names are short.
func size(e *event.Event) int64 {
	n := unsafe.Sizeof(*e) + uintptr(len(e.ID))
	if e.Status != nil {
		n += unsafe.Sizeof(*e.Status) + uintptr(len(e.Status.Reason)+len(e.Status.Message))
	}
	return int64(n)
}

// sandboxSize is about what a sandbox holds in memory. Its annotations may be
// large, and once its pod is removed only the journal has them.
func sandboxSize(s *event.Sandbox) int64 {
	n := unsafe.Sizeof(*s) + uintptr(len(s.ID))
	for _, texts := range []map[string]string{s.Labels, s.Annotations} {
		for key, value := range texts {
			n += 2*unsafe.Sizeof(key) + uintptr(len(key)+len(value))
		}
	}
	return int64(n)
}
