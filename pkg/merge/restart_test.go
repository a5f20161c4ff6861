package merge

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/relist"
)

// apply brings a kept state up to date as the documentation of [Delta] says.
func (s *State) apply(d Delta) {
	s.Epochs = d.Epochs
	s.Events = slices.DeleteFunc(s.Events, func(e *event.Event) bool { return e.Sequence < d.Oldest })
	s.Events = append(s.Events, d.Events...)
	s.Items = slices.DeleteFunc(s.Items, func(it ItemState) bool { return slices.Contains(d.Gone, it.Key()) })
	for _, it := range d.Changed {
		i := slices.IndexFunc(s.Items, func(old ItemState) bool { return old.Key() == it.Key() })
		if i < 0 {
			s.Items = append(s.Items, it)
		} else {
			s.Items[i] = it
		}
	}
	s.Removed = append(s.Removed, d.Removed...)
	s.Removed = s.Removed[len(s.Removed)-d.Remembered:]
}

// sorted puts the items of a state into one order.
func (s State) sorted() State {
	s.Items = slices.Clone(s.Items)
	slices.SortFunc(s.Items, func(a, b ItemState) int {
		return strings.Compare(fmt.Sprint(a.Key()), fmt.Sprint(b.Key()))
	})
	return s
}

// diff says where two sorted states differ first; empty: nowhere.
func (s State) diff(other State) string {
	switch {
	case !slices.Equal(s.Epochs, other.Epochs):
		return fmt.Sprint("epochs ", s.Epochs, other.Epochs)
	case !slices.Equal(s.Events, other.Events):
		return fmt.Sprint("events ", len(s.Events), len(other.Events))
	case !slices.Equal(s.Removed, other.Removed):
		return fmt.Sprint("removed ", len(s.Removed), len(other.Removed))
	case len(s.Items) != len(other.Items):
		return fmt.Sprint("items ", len(s.Items), len(other.Items))
	}
	for i := range s.Items {
		if !reflect.DeepEqual(s.Items[i], other.Items[i]) {
			return fmt.Sprintf("%+v against %+v", s.Items[i], other.Items[i])
		}
	}
	return ""
}

func record(t testing.TB, l *Log) *Recorder {
	t.Helper()
	r, err := l.Record()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

// chain is a log that is killed and goes on from what was kept, again and again,
// and what is known of it by other means.
type chain struct {
	t    *testing.T
	opts Options
	log  *Log
	rec  *Recorder
	kept State
	// events are those that were not lost, from the first on; the first `safe` of
	// them are kept.
	events []*event.Event
	safe   int
	spans  []Epoch // of the epochs before, all of them
	tokens []Token
	pods   []event.PodStatus // of the snapshot when it was last kept
}

func newChain(t *testing.T, o Options) *chain {
	t.Helper()
	c := &chain{t: t, opts: o, pods: []event.PodStatus{}}
	c.start()
	return c
}

func (c *chain) start() {
	c.t.Helper()
	c.opts.Epoch = fmt.Sprint("epoch", len(c.spans)+1)
	c.opts.Restore = nil
	if len(c.spans) > 0 {
		kept := c.kept
		c.opts.Restore = &kept
	}
	c.log = newLog(c.t, c.opts)
	c.rec = record(c.t, c.log)
}

func (c *chain) publish(changes []relist.Change) {
	events := c.log.Publish(changes)
	for i := range events {
		c.events = append(c.events, &events[i])
	}
}

// keep takes what is new, or all.
func (c *chain) keep() {
	c.t.Helper()
	if d, ok := c.rec.Drain(); ok {
		c.kept.apply(d)
	} else {
		c.kept = c.rec.Export()
	}
	c.safe = len(c.events)
	c.pods = c.log.Snapshot().Pods
}

func (c *chain) kill() {
	c.t.Helper()
	c.rec.Close()
	c.events = c.events[:c.safe]
	// An epoch of which nothing was kept is not known afterwards.
	if mine := c.log.epochs; slices.ContainsFunc(c.kept.Epochs, func(e Epoch) bool { return e.Name == mine.name }) {
		c.spans = append(c.spans, Epoch{mine.name, mine.first, uint64(c.safe)})
	} else {
		c.spans = append(c.spans, Epoch{mine.name, 2, 0}) // holds no place at all, not even 0
	}
	c.start()
	if got := c.log.Snapshot().Pods; !reflect.DeepEqual(got, c.pods) {
		c.t.Fatalf("the snapshot after the restart is\n%+v, before it was\n%+v", got, c.pods)
	}
}

// resumes says what the token is owed: the events after it, or nothing but to be
// told that it expired.
func (c *chain) resumes(tok Token) bool {
	own := Epoch{c.log.epochs.name, c.log.epochs.first, uint64(len(c.events))}
	for _, e := range append(slices.Clone(c.spans), own) {
		if e.Name == tok.Epoch {
			return tok.Sequence+1 >= e.First && tok.Sequence <= e.Last && tok.Sequence+1 >= c.log.Stats().Oldest
		}
	}
	return false
}

func (c *chain) checkToken(tok Token) {
	c.t.Helper()
	w, err := c.log.Watch(WatchOptions{Since: tok})
	if err != nil {
		c.t.Fatalf("token %s at %s: %v", tok, c.log.Token(), err)
	}
	defer w.Close()
	if c.resumes(tok) && w.Token().Sequence != tok.Sequence {
		c.t.Fatalf("who starts from %s is at %s", tok, w.Token())
	}
	items := rest(w)
	if !c.resumes(tok) {
		if items[0].Kind != ItemExpired || items[0].Token.Sequence != tok.Sequence {
			c.t.Fatalf("token %s at %s begins with %s %s, want it expired", tok, c.log.Token(), items[0].Kind, items[0].Token)
		}
		return
	}
	var got []*event.Event
	for i, item := range items {
		switch item.Kind {
		case ItemEvent:
			got = append(got, item.Event)
		case ItemSynced:
			if i != len(items)-1 {
				c.t.Fatalf("token %s: synced after %d of %d items", tok, i, len(items))
			}
		default:
			c.t.Fatalf("token %s at %s gets %s", tok, c.log.Token(), item.Kind)
		}
		// What it may be resumed from does so, whichever epoch names it.
		if !c.resumes(item.Token) {
			c.t.Fatalf("token %s is handed out and would expire", item.Token)
		}
	}
	if !slices.EqualFunc(got, c.events[tok.Sequence:], sameEvent) {
		c.t.Fatalf("token %s at %s gets %d events, want %d", tok, c.log.Token(), len(got), len(c.events)-int(tok.Sequence))
	}
}

func sameEvent(a, b *event.Event) bool {
	return a.ID == b.ID && a.Sequence == b.Sequence && a.Epoch == b.Epoch
}

func (c *chain) checkWhole(name string) {
	c.t.Helper()
	if err := checkLaw(c.events); err != nil {
		c.t.Fatal(err)
	}
	f := newFold()
	for _, e := range c.events {
		f.apply(e)
	}
	err := f.diff(c.log)
	if err == nil && name == "regular" {
		err = f.equal(c.log.Snapshot())
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

// TestKilledAgainAndAgain lets random histories be told by one log after another:
// each is ended at any moment, and what had not been kept by then is lost.
func TestKilledAgainAndAgain(t *testing.T) {
	for name, history := range histories {
		t.Run(name, func(t *testing.T) {
			lost, valid, expired := 0, 0, 0
			for _, seed := range seeds(t) {
				t.Logf("seed %d", seed)
				r := rand.New(rand.NewPCG(seed, 7))
				next := history(seed)
				c := newChain(t, Options{JournalEvents: 150})
				for range 600 {
					switch n := r.IntN(100); {
					case n < 70:
						c.publish(next())
					case n < 90:
						c.keep()
						if err := c.kept.Check(); err != nil {
							t.Fatal(err)
						}
					case n < 93:
						c.rec.Drain() // which then could not be written
						c.rec.Discard()
					case n < 97:
						lost += len(c.events) - c.safe
						c.kill()
						c.checkWhole(name)
					default:
						c.tokens = append(c.tokens, c.log.Token())
						c.tokens = c.tokens[max(0, len(c.tokens)-30):]
						for _, tok := range c.tokens {
							c.checkToken(tok)
							if c.resumes(tok) {
								valid++
							} else {
								expired++
							}
						}
					}
				}
				c.checkWhole(name)
			}
			if lost == 0 || valid == 0 || expired == 0 {
				t.Errorf("%d events lost, %d tokens resumed, %d expired: some of it is not tried", lost, valid, expired)
			}
		})
	}
}

// TestDeltasAddUpToTheExport drains beside many publishers.
func TestDeltasAddUpToTheExport(t *testing.T) {
	l := newLog(t, Options{JournalEvents: 64, Removed: 50})
	r := record(t, l)
	kept := r.Export()
	var publishers sync.WaitGroup
	for p := range 4 {
		publishers.Go(func() {
			next := histories[[]string{"regular", "unknown", "garbage", "regular"}[p]](uint64(p))
			for range 500 {
				l.Publish(next())
			}
		})
	}
	done := make(chan struct{})
	go func() {
		publishers.Wait()
		close(done)
	}()
	drain := func() {
		d, ok := r.Drain()
		if !ok {
			t.Fatal("nothing was followed")
		}
		kept.apply(d)
		if err := kept.Check(); err != nil {
			t.Fatal(err)
		}
	}
	for running := true; running; {
		select {
		case <-r.Ready():
			drain()
		case <-done:
			running = false
		}
	}
	drain()
	want := r.Export().sorted()
	if diff := kept.sorted().diff(want); diff != "" {
		t.Error("the deltas do not add up to what the log holds: ", diff)
	}
	restored := newLog(t, Options{Restore: &kept, JournalEvents: 64, Removed: 50})
	got := record(t, restored).Export().sorted()
	want.Epochs = append(want.Epochs, Epoch{restored.epochs.name, l.Token().Sequence + 1, l.Token().Sequence})
	if diff := got.diff(want); diff != "" {
		t.Error("the restored log holds something else: ", diff)
	}
}

func TestRecorderRings(t *testing.T) {
	l := newLog(t, Options{})
	r := record(t, l)
	rang := func() bool {
		select {
		case <-r.Ready():
			return true
		default:
			return false
		}
	}
	l.Publish([]relist.Change{change(event.ContainerStarted, "a")})
	if _, ok := r.Drain(); ok || rang() {
		t.Error("it follows the log before the first Export")
	}
	r.Export()
	l.Publish([]relist.Change{change(event.ContainerStarted, "a")})
	if rang() {
		t.Error("it rings for what changed nothing")
	}
	l.Publish([]relist.Change{change(event.ContainerStarted, "b")})
	l.Publish([]relist.Change{change(event.ContainerRemoved, "a")})
	if !rang() || rang() {
		t.Error("two changes should ring once")
	}
	d, ok := r.Drain()
	if !ok || len(d.Events) != 2 || len(d.Changed) != 1 || len(d.Gone) != 1 || len(d.Removed) != 1 {
		t.Errorf("drained %+v", d)
	}
	seen := change("", "b")
	seen.To = event.StateUnknown
	l.Publish([]relist.Change{seen})
	if d, _ := r.Drain(); !rang() || len(d.Changed) != 1 || d.Changed[0].Seen != event.StateUnknown {
		t.Errorf("a state that is not told: %+v", d)
	}
	r.Discard()
	l.Publish([]relist.Change{change(event.ContainerDied, "b")})
	if _, ok := r.Drain(); ok || rang() {
		t.Error("it follows the log after Discard")
	}
	if _, err := l.Record(); !errors.Is(err, ErrRecorded) {
		t.Errorf("a second recorder: %v", err)
	}
	r.Close()
	if _, err := l.Record(); err != nil {
		t.Error(err)
	}
}

// TestRecorderGivesUp: what nobody drains is not gathered for ever.
func TestRecorderGivesUp(t *testing.T) {
	l := newLog(t, Options{JournalEvents: 8, Removed: 8})
	r := record(t, l)
	r.Export()
	for i := range maxDirty + 1 {
		l.Publish([]relist.Change{change(event.ContainerStarted, fmt.Sprint(i)), change(event.ContainerRemoved, fmt.Sprint(i))})
	}
	if _, ok := r.Drain(); ok || l.model.dirty != nil {
		t.Error("it still follows the log")
	}
	if s := r.Export(); s.Check() != nil || len(s.Events) != 8 || len(s.Removed) != 8 || len(s.Items) != 0 {
		t.Errorf("%d events, %d removed, %d items: %v", len(s.Events), len(s.Removed), len(s.Items), s.Check())
	}
}

func TestTokenOfLostNumbersExpires(t *testing.T) {
	old := newLog(t, Options{Epoch: "old"})
	r := record(t, old)
	old.Publish([]relist.Change{change(event.ContainerCreated, "a"), change(event.ContainerStarted, "a")})
	kept := r.Export()
	old.Publish([]relist.Change{change(event.ContainerDied, "a")}) // lost

	l := newLog(t, Options{Epoch: "new", Restore: &kept})
	l.Publish([]relist.Change{change(event.ContainerStarted, "b"), change(event.ContainerDied, "a")})
	for _, row := range []struct {
		token, want string
	}{
		{"old-0", "1:a/ContainerCreated 2:a/ContainerStarted 3:b/ContainerStarted 4:a/ContainerDied synced@new-4"},
		{"old-2", "3:b/ContainerStarted 4:a/ContainerDied synced@new-4"},
		{"new-2", "3:b/ContainerStarted 4:a/ContainerDied synced@new-4"},
		{"new-4", "synced@new-4"},
		{"old-3", "expired@old-3 pod:p synced@new-4"},
		{"old-4", "expired@old-4 pod:p synced@new-4"},
		{"old-99", "expired@old-99 pod:p synced@new-4"},
		{"new-1", "expired@new-1 pod:p synced@new-4"},
		{"other-2", "expired@other-2 pod:p synced@new-4"},
	} {
		tok, err := ParseToken(row.token)
		if err != nil {
			t.Fatal(err)
		}
		if got := write(rest(watch(t, l, WatchOptions{Since: tok}))); got != row.want {
			t.Errorf("%s gets %q, want %q", row.token, got, row.want)
		}
	}
	if _, err := l.Watch(WatchOptions{Since: Token{"new", 5}}); !errors.Is(err, ErrFutureToken) {
		t.Errorf("new-5: %v", err)
	}
}

func TestEpochsAreBounded(t *testing.T) {
	var kept State
	for i := range 3 * maxEpochs {
		state := kept
		l := newLog(t, Options{Epoch: fmt.Sprint("e", i), Restore: &state, JournalEvents: 4})
		if i == 0 || i == 2*maxEpochs {
			l.Publish([]relist.Change{change(event.ContainerStarted, fmt.Sprint(i))})
		}
		kept = record(t, l).Export()
		if len(kept.Epochs) > maxEpochs {
			t.Fatalf("%d epochs are known", len(kept.Epochs))
		}
		if err := kept.Check(); err != nil {
			t.Fatal(err)
		}
	}
	if len(kept.Events) != 2 || len(kept.Epochs) != maxEpochs {
		t.Errorf("%d events, %d epochs", len(kept.Events), len(kept.Epochs))
	}
	// Those whose events are out of the journal go at once.
	l := newLog(t, Options{Epoch: "last", Restore: &kept, JournalEvents: 4})
	for i := range 5 {
		l.Publish([]relist.Change{change(event.ContainerStarted, fmt.Sprint("x", i))})
	}
	if s := record(t, l).Export(); len(s.Epochs) != 1 || s.Epochs[0] != (Epoch{"last", 3, 7}) {
		t.Errorf("known are %+v", s.Epochs)
	}
}

func TestRestoreRefusesWhatCannotBe(t *testing.T) {
	l := newLog(t, Options{Epoch: "e"})
	l.Publish([]relist.Change{change(event.ContainerCreated, "a"), change(event.ContainerStarted, "a"), change(event.SandboxStarted, "s")})
	good := func() *State {
		s := record(t, l)
		defer s.Close()
		state := s.Export()
		for i, e := range state.Events {
			clone := *e
			state.Events[i] = &clone
		}
		return &state
	}
	if _, err := New(Options{Restore: good()}); err != nil {
		t.Fatal(err)
	}
	if _, err := New(Options{Restore: good(), Epoch: "e"}); err == nil || !strings.Contains(err.Error(), "used before") {
		t.Errorf("the same epoch again: %v", err)
	}
	for name, spoil := range map[string]func(s *State){
		"epoch name":        func(s *State) { s.Epochs[0].Name = "a-b" },
		"epoch from 0":      func(s *State) { s.Epochs[0].First = 0 },
		"epoch backwards":   func(s *State) { s.Epochs[0].First = 9 },
		"epoch gap":         func(s *State) { s.Epochs = append(s.Epochs, Epoch{"f", 9, 10}) },
		"epoch twice":       func(s *State) { s.Epochs = append(s.Epochs, Epoch{"e", 4, 3}) },
		"no epochs":         func(s *State) { s.Epochs = nil },
		"no event":          func(s *State) { s.Events[1] = nil },
		"event gap":         func(s *State) { s.Events[0].Sequence = 7 },
		"events short":      func(s *State) { s.Events = s.Events[:2] },
		"event's epoch":     func(s *State) { s.Events[0].Epoch = "f" },
		"event type":        func(s *State) { s.Events[0].Type = "Foo" },
		"event of none":     func(s *State) { s.Events[0].Container = nil },
		"sandbox of none":   func(s *State) { s.Events[2].Sandbox = nil },
		"item of none":      func(s *State) { s.Items[0] = ItemState{} },
		"item twice":        func(s *State) { s.Items = append(s.Items, s.Items[0]) },
		"item was removed":  func(s *State) { s.Items[0].Told = []event.Type{event.ContainerRemoved} },
		"item of two kinds": func(s *State) { s.Items[0].Told = []event.Type{event.SandboxStarted, event.ContainerDied} },
	} {
		s := good()
		spoil(s)
		if _, err := New(Options{Restore: s}); err == nil {
			t.Errorf("%s: is taken for a state", name)
		}
	}
}
