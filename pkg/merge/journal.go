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
}

func newJournal(events int, maxBytes int64) *journal {
	return &journal{
		slots:    make([]atomic.Pointer[event.Event], events),
		oldest:   1,
		maxBytes: maxBytes,
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
	j.bytes += size(e)
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
	j.bytes -= size(slot.Load())
	slot.Store(nil)
	j.oldest++
}

func (j *journal) slot(sequence uint64) *atomic.Pointer[event.Event] {
	return &j.slots[sequence%uint64(len(j.slots))]
}

// size is about what an event holds in memory by itself. Names are left out: it
// shares them with the record of its pod.
func size(e *event.Event) int64 {
	n := unsafe.Sizeof(*e) + uintptr(len(e.ID))
	if e.Status != nil {
		n += unsafe.Sizeof(*e.Status) + uintptr(len(e.Status.Reason)+len(e.Status.Message))
	}
	return int64(n)
}
