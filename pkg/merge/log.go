package merge

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
	"weak"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/relist"
)

// The defaults of [Options].
const (
	DefaultJournalEvents = 16384
	DefaultJournalBytes  = 16 << 20
	DefaultRemoved       = 16384
)

// ErrClosed is returned for a log or a watcher that was closed.
var ErrClosed = errors.New("closed")

// Options are the settings of a [Log]. The zero value works.
type Options struct {
	// Epoch names this start of the process in tokens: 1 to 64 letters, digits and
	// underscores, and none of those in Restore. Empty: a random one.
	Epoch string
	// Restore is what an earlier log held, to go on from: its events are followed by
	// those of a new epoch, its tokens resume here. The log keeps what it points to.
	// Nil: there was none.
	Restore *State
	// JournalEvents is how many events are kept for watchers that are behind. 0:
	// [DefaultJournalEvents].
	JournalEvents int
	// JournalBytes bounds the memory of the events kept, as far as it is known; it
	// matters when status messages or a pod's annotations are long. What the events of
	// a pod share counts once. The newest event is always kept. 0:
	// [DefaultJournalBytes].
	JournalBytes int64
	// Removed is how many removed IDs are remembered, 32 to 64 bytes each. 0:
	// [DefaultRemoved].
	Removed int
	// Now gives the time of events. Nil: [time.Now].
	Now func() time.Time

	// OnEvent is called for each event, OnSuppressed for each change that the law
	// forbids to tell. They are called by Publish, one at a time, events in order,
	// watchers already see them. They must be quick, and must not call Publish or
	// Close.
	OnEvent      func(*event.Event)
	OnSuppressed func(*relist.Change, Reason)
}

// Log is the stream of events and the state they add up to. All methods may be
// called from any goroutine.
type Log struct {
	epochs       epochs
	now          func() time.Time
	onEvent      func(*event.Event)
	onSuppressed func(*relist.Change, Reason)

	// publishing is held by the one that publishes, its hooks included. It comes
	// before mu.
	publishing sync.Mutex

	mu         sync.RWMutex // guards what follows; watchers do without it
	model      model
	version    uint64 // grows with each Publish
	suppressed [reasons]uint64
	recorder   *Recorder // nil while nobody records

	journal *journal // appended to under mu, read freely
	bell    *bell
	// closed is set after the last event was revealed.
	closed   atomic.Bool
	watchers atomic.Int64
	expired  atomic.Uint64

	// The latest snapshot is shared by all who ask before the next change, as long
	// as one of them still needs it: a thousand watchers that come at once don't
	// make a thousand copies, and an idle log holds none.
	latestMu      sync.Mutex // comes before mu
	latest        weak.Pointer[Snapshot]
	latestVersion uint64
}

// New makes an empty log. The error says which option is out of range.
func New(o Options) (*Log, error) {
	if o.Epoch == "" {
		o.Epoch = newEpoch()
	}
	if err := checkEpoch(o.Epoch); err != nil {
		return nil, fmt.Errorf("merge options: %w", err)
	}
	if o.JournalEvents < 0 || o.JournalBytes < 0 || o.Removed < 0 {
		return nil, fmt.Errorf("merge options: JournalEvents %d, JournalBytes %d, Removed %d: none may be negative",
			o.JournalEvents, o.JournalBytes, o.Removed)
	}
	if o.JournalEvents == 0 {
		o.JournalEvents = DefaultJournalEvents
	}
	if o.JournalBytes == 0 {
		o.JournalBytes = DefaultJournalBytes
	}
	if o.Removed == 0 {
		o.Removed = DefaultRemoved
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Restore == nil {
		o.Restore = &State{}
	}
	if err := o.Restore.Check(); err != nil {
		return nil, fmt.Errorf("merge options: restore: %w", err)
	}
	epochs, err := since(o.Restore.Epochs, o.Epoch)
	if err != nil {
		return nil, fmt.Errorf("merge options: %w", err)
	}
	l := &Log{
		epochs:       epochs,
		now:          o.Now,
		onEvent:      o.OnEvent,
		onSuppressed: o.OnSuppressed,
		model:        newModel(o.Removed),
		journal:      newJournal(o.JournalEvents, o.JournalBytes),
		bell:         newBell(),
	}
	l.restore(o.Restore)
	return l, nil
}

// suppression is a change that was refused, kept for the hook.
type suppression struct {
	change *relist.Change
	why    Reason
}

// Publish takes in the changes of one pod, in the order in which they were
// observed, and returns those that became events. Watchers see these all at once.
// It waits for no watcher. After Close it does nothing.
//
// The log keeps what the changes point to, and the events returned are those that
// watchers get: neither may be written to afterwards.
func (l *Log) Publish(changes []relist.Change) []event.Event {
	if len(changes) == 0 {
		return nil
	}
	l.publishing.Lock()
	defer l.publishing.Unlock()
	if l.closed.Load() {
		return nil
	}
	events, refused := l.take(changes)
	if len(events) > 0 {
		l.bell.ring()
	}
	if l.onEvent != nil {
		for i := range events {
			l.onEvent(&events[i])
		}
	}
	for _, s := range refused {
		l.onSuppressed(s.change, s.why)
	}
	return events
}

// take applies the changes to the model and the journal.
func (l *Log) take(changes []relist.Change) (events []event.Event, refused []suppression) {
	now := l.now().UTC()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.version++
	for i := range changes {
		c := &changes[i]
		tell, why := l.model.apply(c)
		if why != 0 {
			l.suppressed[why]++
			if l.onSuppressed != nil {
				refused = append(refused, suppression{c, why})
			}
		}
		if !tell {
			continue
		}
		if events == nil {
			// Never grown, so that the journal's pointers into it hold.
			events = make([]event.Event, 0, len(changes)-i)
		}
		events = append(events, l.event(c, now))
		l.journal.append(&events[len(events)-1])
	}
	l.journal.reveal()
	if l.recorder != nil {
		l.recorder.published()
	}
	return events, refused
}

// event makes c the next event.
func (l *Log) event(c *relist.Change, now time.Time) event.Event {
	sequence := l.journal.last + 1
	return event.Event{
		Epoch:         l.epochs.name,
		Sequence:      sequence,
		ID:            l.eventID(c, sequence),
		Type:          c.Type,
		Time:          now,
		Pod:           c.Pod,
		Sandbox:       c.Sandbox,
		Container:     c.Container,
		CreatedAt:     c.CreatedAt,
		From:          c.From,
		To:            c.To,
		Status:        c.Status,
		StatusMissing: c.StatusMissing,
		Detection:     c.Detection,
		Inferred:      c.Inferred,
	}
}

func (l *Log) eventID(c *relist.Change, sequence uint64) string {
	id := c.ItemID()
	if c.Type != event.PodSync {
		return id + "/" + string(c.Type)
	}
	if id == "" {
		id = c.Pod.UID
	}
	var buf [192]byte
	b := append(append(buf[:0], id...), "/PodSync/"...)
	return string(Token{l.epochs.name, sequence}.append(b))
}

// Snapshot returns the state of all pods as told so far.
func (l *Log) Snapshot() Snapshot { return *l.snapshot() }

func (l *Log) snapshot() *Snapshot {
	l.latestMu.Lock()
	defer l.latestMu.Unlock()

	l.mu.RLock()
	if s := l.latest.Value(); s != nil && l.latestVersion == l.version {
		l.mu.RUnlock()
		return s
	}
	pods, items := len(l.model.pods), len(l.model.containers)+len(l.model.sandboxes)
	l.mu.RUnlock()
	x := newExtract(pods, items)

	l.mu.RLock()
	x.fill(&l.model)
	token, version := l.Token(), l.version
	l.mu.RUnlock()

	s := &Snapshot{Token: token, Pods: x.pods()}
	l.latest, l.latestVersion = weak.Make(s), version
	return s
}

// Token returns the place after the last event: who watches since then gets only
// what is still to come.
func (l *Log) Token() Token {
	return Token{Epoch: l.epochs.name, Sequence: l.journal.head.Load()}
}

// Close ends the stream. Watchers get what is in the journal and then
// [ErrClosed]; snapshots stay available.
func (l *Log) Close() {
	l.publishing.Lock()
	defer l.publishing.Unlock()
	l.closed.Store(true)
	l.bell.ring()
}
