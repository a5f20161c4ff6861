package merge

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
)

// ErrFutureToken marks the error for a token of this log's own epoch that it has not
// reached.
var ErrFutureToken = errors.New("token is ahead of the log")

// WatchOptions say what a watcher is to get. The zero value is all pods, then all
// events from there on.
type WatchOptions struct {
	// Since asks for the events after that place instead of a snapshot. The zero
	// Token asks for a snapshot. [Log.Token] gives the place for what is still to
	// come.
	Since Token
	// Pods and Events pick what is delivered; nil picks all. They are called by
	// Next and must not write to what they are given. A place that was passed over
	// counts as seen: the watcher's token moves on.
	Pods   func(*event.PodStatus) bool
	Events func(*event.Event) bool
}

// ItemKind says what an [Item] is.
type ItemKind uint8

// The kinds of item.
const (
	// ItemPod: a pod of the snapshot.
	ItemPod ItemKind = iota + 1
	// ItemSynced: the snapshot is complete; or, for a watcher that started from a
	// token, all that had happened by the time Watch was called is delivered.
	ItemSynced
	// ItemEvent: something happened.
	ItemEvent
	// ItemExpired: events after the watcher's place are lost to it, as the journal
	// has them no more, or the token is of an epoch, or a place in one, that is not
	// known. What was known so far is void: all pods and a Synced follow, then
	// events.
	ItemExpired
)

// String returns the kind's name in lower case.
func (k ItemKind) String() string {
	switch k {
	case ItemPod:
		return "pod"
	case ItemSynced:
		return "synced"
	case ItemEvent:
		return "event"
	case ItemExpired:
		return "expired"
	default:
		return fmt.Sprintf("ItemKind(%d)", uint8(k))
	}
}

// Item is one thing that a watcher gets. What it points to is shared with other
// watchers: read it, don't write to it.
type Item struct {
	Kind  ItemKind
	Pod   *event.PodStatus // of an ItemPod
	Event *event.Event     // of an ItemEvent
	// Token is, of an ItemSynced and an ItemEvent, the place to resume from once
	// the item is dealt with; of an ItemExpired, the place that could not be
	// resumed from. An ItemPod has none: half a snapshot is nothing to resume from.
	Token Token
}

// Watcher is a cursor in a log. It has no goroutine and no buffer: the journal is
// its buffer, and Next reads from it. Only one goroutine at a time may call Next
// or range over All; the other methods may be called from any.
type Watcher struct {
	log    *Log
	pods   func(*event.PodStatus) bool
	events func(*event.Event) bool

	done      chan struct{}
	closeOnce sync.Once

	// Of the goroutine that calls Next.
	phase   phase
	lost    Token     // in phaseExpired
	snap    *Snapshot // in phasePods
	nextPod int
	syncAt  uint64 // in phaseCatchUp: Synced comes once this is passed

	// cursor is the last event passed, or the snapshot's place. resumable is false
	// while a snapshot is being delivered. resumable goes false before cursor moves
	// to the snapshot's place, so Token reads them the other way round.
	cursor    atomic.Uint64
	resumable atomic.Bool
}

type phase uint8

const (
	phaseExpired  phase = iota + 1 // say so, then phaseSnapshot
	phaseSnapshot                  // take one, then phasePods
	phasePods                      // deliver it and Synced, then phaseLive
	phaseCatchUp                   // events, Synced at syncAt, then phaseLive
	phaseLive                      // events
)

// Watch opens a watcher. The error wraps [ErrBadToken] or [ErrFutureToken], or is
// [ErrClosed]; a token that is too old, or of a place in another epoch that is not
// known, is no error: the first item is then an ItemExpired. Close the watcher after
// use.
func (l *Log) Watch(o WatchOptions) (*Watcher, error) {
	if l.closed.Load() {
		return nil, ErrClosed
	}
	w := &Watcher{log: l, pods: o.Pods, events: o.Events, done: make(chan struct{})}
	if err := w.start(o.Since); err != nil {
		return nil, err
	}
	l.watchers.Add(1)
	return w, nil
}

func (w *Watcher) start(since Token) error {
	if since.IsZero() {
		w.begin(w.log.snapshot())
		return nil
	}
	if err := since.check(); err != nil {
		return err
	}
	head := w.log.Token()
	switch {
	case since.Epoch == head.Epoch && since.Sequence > head.Sequence:
		return fmt.Errorf("%w: %q is asked for, the last event is %q; watch without a token to start anew",
			ErrFutureToken, since, head)
	case !w.log.epochs.known(since, head.Sequence):
		// Nothing is known of that place, and nothing is owed since: see Lag.
		w.cursor.Store(head.Sequence)
		w.expire(since)
	default:
		w.phase = phaseCatchUp
		w.syncAt = head.Sequence
		w.cursor.Store(since.Sequence)
		w.resumable.Store(true)
	}
	return nil
}

// Next returns the next item, and waits for it where there is none yet. The error
// is ctx's, or [ErrClosed] once the watcher was closed or all of a closed log was
// delivered. An error takes no item away: Next may be called again.
func (w *Watcher) Next(ctx context.Context) (Item, error) {
	for {
		if err := ctx.Err(); err != nil {
			return Item{}, err
		}
		select {
		case <-w.done:
			return Item{}, ErrClosed
		default:
		}
		round := w.log.bell.listen()
		closed := w.log.closed.Load() // before the head is read: then it is the last
		item, more := w.step()
		switch {
		case item.Kind != 0:
			return item, nil
		case more:
			continue
		case closed:
			return Item{}, ErrClosed
		}
		select {
		case <-round:
		case <-w.log.bell.kick:
			w.log.bell.pass()
		case <-ctx.Done():
		case <-w.done:
		}
	}
}

// All returns the items one after another, as [Watcher.Next] does, until an error,
// which is the last element. It does not close the watcher.
func (w *Watcher) All(ctx context.Context) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		for {
			item, err := w.Next(ctx)
			if !yield(item, err) || err != nil {
				return
			}
		}
	}
}

// Token returns the place to resume from after the items returned so far; the
// zero Token while a snapshot is not yet complete.
func (w *Watcher) Token() Token {
	sequence := w.cursor.Load()
	if !w.resumable.Load() {
		return Token{}
	}
	return w.log.epochs.token(sequence)
}

// Lag returns how many events were published that the watcher has not passed yet.
func (w *Watcher) Lag() uint64 {
	cursor := w.cursor.Load() // first, as the head never falls behind it
	return w.log.journal.head.Load() - cursor
}

// Close ends the watcher and a Next that waits. It may be called more than once.
func (w *Watcher) Close() {
	w.closeOnce.Do(func() {
		close(w.done)
		w.log.watchers.Add(-1)
	})
}

// stride is how many events are passed over before ctx is looked at again.
const stride = 1024

// step makes the watcher's next move without waiting. With no item, more says
// whether there is more to do at once.
func (w *Watcher) step() (item Item, more bool) {
	switch w.phase {
	case phaseExpired:
		w.log.expired.Add(1)
		w.phase = phaseSnapshot
		return Item{Kind: ItemExpired, Token: w.lost}, false
	case phaseSnapshot:
		w.begin(w.log.snapshot())
		return w.nextOfSnapshot(), false
	case phasePods:
		return w.nextOfSnapshot(), false
	default:
		return w.nextEvent()
	}
}

func (w *Watcher) expire(lost Token) {
	w.resumable.Store(false)
	w.lost = lost
	w.phase = phaseExpired
}

func (w *Watcher) begin(s *Snapshot) {
	w.resumable.Store(false)
	w.cursor.Store(s.Token.Sequence)
	w.snap, w.nextPod = s, 0
	w.phase = phasePods
}

func (w *Watcher) nextOfSnapshot() Item {
	for w.nextPod < len(w.snap.Pods) {
		p := &w.snap.Pods[w.nextPod]
		w.nextPod++
		if w.pods == nil || w.pods(p) {
			return Item{Kind: ItemPod, Pod: p}
		}
	}
	w.snap = nil
	return w.synced()
}

func (w *Watcher) synced() Item {
	w.phase = phaseLive
	w.resumable.Store(true)
	return Item{Kind: ItemSynced, Token: w.Token()}
}

func (w *Watcher) nextEvent() (item Item, more bool) {
	cursor := w.cursor.Load()
	head := w.log.journal.head.Load()
	for range stride {
		if w.phase == phaseCatchUp && cursor >= w.syncAt {
			return w.synced(), false
		}
		if cursor == head {
			return Item{}, false
		}
		e := w.log.journal.at(cursor + 1)
		if e == nil {
			w.expire(w.log.epochs.token(cursor))
			return Item{}, true
		}
		cursor++
		w.cursor.Store(cursor)
		if w.events == nil || w.events(e) {
			return Item{Kind: ItemEvent, Event: e, Token: Token{Epoch: e.Epoch, Sequence: cursor}}, false
		}
	}
	return Item{}, true
}
