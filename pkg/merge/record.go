package merge

import (
	"errors"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
)

// ErrRecorded is returned by [Log.Record] while there is a [Recorder] already.
var ErrRecorded = errors.New("the log is being recorded already")

// Recorder hands what a log holds to someone who keeps it elsewhere: all of it
// ([Recorder.Export]), then what has become of it since ([Recorder.Drain]). Its
// methods are for one goroutine at a time. It holds up publishers for a moment and
// watchers not at all.
type Recorder struct {
	log   *Log
	ready chan struct{}

	// Guarded by log.mu.
	dirty    *dirty // nil while nothing is followed: all is to be exported
	sequence uint64 // the last event handed out
	stones   uint64 // how many tombstones had been added when some were last handed out
}

// Delta is what has become of a log since a [State] or a Delta before it was taken.
// To bring that state up to date: put Epochs in place of its own; forget the events
// before Oldest and append Events; take out Gone, then put in Changed; append
// Removed, and forget the oldest but the last Remembered. What it points to is
// shared with the log: read it, don't write to it.
type Delta struct {
	Epochs     []Epoch
	Oldest     uint64
	Events     []*event.Event
	Gone       []ItemKey
	Changed    []ItemState
	Removed    []Tombstone
	Remembered int
}

// Record starts to follow the log. Until the first Export it costs nothing. Close
// it after use.
func (l *Log) Record() (*Recorder, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.recorder != nil {
		return nil, ErrRecorded
	}
	l.recorder = &Recorder{log: l, ready: make(chan struct{}, 1)}
	return l.recorder, nil
}

// Ready gets a value when there may be something to drain. What comes while one
// waits there is announced by that one.
func (r *Recorder) Ready() <-chan struct{} { return r.ready }

// Export returns all that the log holds. What becomes of it afterwards is followed.
func (r *Recorder) Export() State {
	l := r.log
	l.mu.RLock()
	n := len(l.model.containers) + len(l.model.sandboxes)
	l.mu.RUnlock()
	items := make([]recorded, 0, n) // so that the log need not stand still for it

	l.mu.Lock()
	for _, p := range l.model.pods {
		for _, it := range p.items {
			items = append(items, recorded{*it, p.name})
		}
	}
	s := State{
		Epochs:  l.epochs.spans(l.journal.oldest, l.journal.last),
		Events:  l.journal.from(l.journal.oldest),
		Removed: l.model.removed.newest(len(l.model.removed.order)),
	}
	r.handedOut()
	l.mu.Unlock()

	s.Items = states(items)
	return s
}

// Drain returns what has become of the log since the last Export or Drain, or
// false when that is not known: after [Recorder.Discard], before the first Export,
// or because too much came together. Then an Export is due.
func (r *Recorder) Drain() (Delta, bool) {
	l := r.log
	l.mu.Lock()
	if r.dirty == nil {
		l.mu.Unlock()
		return Delta{}, false
	}
	d := Delta{
		Epochs:     l.epochs.spans(l.journal.oldest, l.journal.last),
		Oldest:     l.journal.oldest,
		Events:     l.journal.from(r.sequence + 1),
		Removed:    l.model.removed.newest(int(min(l.model.removed.added-r.stones, uint64(len(l.model.removed.order))))),
		Remembered: len(l.model.removed.order),
	}
	items := make([]recorded, 0, len(r.dirty.changed))
	for it := range r.dirty.changed {
		items = append(items, recorded{*it, it.pod.name})
	}
	for key := range r.dirty.gone {
		d.Gone = append(d.Gone, key)
	}
	r.handedOut()
	l.mu.Unlock()

	d.Changed = states(items)
	return d, true
}

// Discard says that what was handed out last was not kept. Nothing is followed, and
// nothing announced, until the next Export.
func (r *Recorder) Discard() {
	r.log.mu.Lock()
	defer r.log.mu.Unlock()
	r.follow(nil)
}

// Close stops following the log.
func (r *Recorder) Close() {
	r.log.mu.Lock()
	defer r.log.mu.Unlock()
	r.follow(nil)
	r.log.recorder = nil
}

// handedOut starts to follow what comes from now on.
func (r *Recorder) handedOut() {
	l := r.log
	r.sequence, r.stones = l.journal.last, l.model.removed.added
	if r.dirty == nil || !r.dirty.empty() {
		r.follow(newDirty())
	}
}

func (r *Recorder) follow(d *dirty) {
	r.dirty, r.log.model.dirty = d, d
}

// published is called, with the log locked, after changes were taken in.
func (r *Recorder) published() {
	switch {
	case r.dirty == nil:
		return
	case r.dirty.full():
		// Whoever drains is far behind. To write everything once costs it less, and us
		// no memory.
		r.follow(nil)
	case r.dirty.empty() && r.log.journal.last == r.sequence:
		return
	}
	select {
	case r.ready <- struct{}{}:
	default: // announced already
	}
}

// dirty is which items changed.
type dirty struct {
	changed map[*item]struct{}
	gone    map[ItemKey]struct{}
}

// maxDirty bounds what is followed for somebody who does not drain.
const maxDirty = 65536

func newDirty() *dirty {
	return &dirty{changed: make(map[*item]struct{}), gone: make(map[ItemKey]struct{})}
}

func (d *dirty) empty() bool { return len(d.changed)+len(d.gone) == 0 }
func (d *dirty) full() bool  { return len(d.changed)+len(d.gone) > maxDirty }

func (d *dirty) touch(it *item) {
	if d != nil {
		d.changed[it] = struct{}{}
	}
}

func (d *dirty) touchAll(p *pod) {
	if d != nil {
		for _, it := range p.items {
			d.changed[it] = struct{}{}
		}
	}
}

func (d *dirty) remove(it *item) {
	if d != nil {
		delete(d.changed, it)
		d.gone[ItemKey{Container: it.container != nil, ID: it.id()}] = struct{}{}
	}
}

// recorded is a copy of an item, made while the log stood still.
type recorded struct {
	item
	name event.Pod
}

func states(items []recorded) []ItemState {
	if len(items) == 0 {
		return nil
	}
	out := make([]ItemState, len(items))
	for i := range items {
		it := &items[i]
		out[i] = ItemState{
			Pod:       it.name,
			Sandbox:   it.sandbox,
			Container: it.container,
			CreatedAt: it.created(),
			Status:    it.status,
			Told:      it.told.types(it.container != nil),
			Seen:      it.seen.event(),
		}
	}
	return out
}
