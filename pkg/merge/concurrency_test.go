package merge

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
)

// follower is a client: it applies what its watcher gives it, and checks that
// nothing is missing in between.
type follower struct {
	state   *fold
	last    Token // the place it is at; zero while it takes in a snapshot
	events  int
	expired int
	syncs   int
	lawful  []*event.Event // since the last snapshot
}

func (f *follower) take(item Item) error {
	if f.state == nil {
		f.state = newFold()
	}
	switch item.Kind {
	case ItemPod:
		if !f.last.IsZero() {
			return fmt.Errorf("a pod at %s, which is not in a snapshot", f.last)
		}
		f.state.addPod(item.Pod)
	case ItemSynced:
		f.syncs++
		if !f.last.IsZero() && f.last != item.Token {
			return fmt.Errorf("synced at %s, want %s", item.Token, f.last)
		}
		f.last = item.Token
	case ItemEvent:
		if item.Token.Sequence != f.last.Sequence+1 || f.last.IsZero() {
			return fmt.Errorf("event %s follows %s", item.Token, f.last)
		}
		f.last = item.Token
		f.events++
		f.lawful = append(f.lawful, item.Event)
		f.state.apply(item.Event)
	case ItemExpired:
		f.expired++
		*f = follower{state: newFold(), events: f.events, expired: f.expired, syncs: f.syncs}
	default:
		return fmt.Errorf("an item of kind %s", item.Kind)
	}
	return nil
}

// follow takes all of w until the log is closed, calling pause after each item.
func (f *follower) follow(ctx context.Context, w *Watcher, pause func()) error {
	for item, err := range w.All(ctx) {
		if errors.Is(err, ErrClosed) {
			return checkLaw(f.lawful)
		}
		if err == nil {
			err = f.take(item)
		}
		if err != nil {
			return err
		}
		pause()
	}
	return nil
}

// TestWatchersOfEverySpeed runs a publisher against fast and stalling watchers,
// all of them goroutines of their own. The fast ones get everything; those that
// stall until the journal has lost their place are told so; all end with the same
// state.
func TestWatchersOfEverySpeed(t *testing.T) {
	const (
		journal = 256
		fast    = 20
		stall   = 20
		total   = 5000
	)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	l := newLog(t, Options{JournalEvents: journal})
	next := regularHistory(seed)
	for range 100 {
		l.Publish(next())
	}
	start := l.Token().Sequence

	var published atomic.Bool
	var progress sync.Mutex
	moved := sync.NewCond(&progress) // signalled now and then, and at the end
	followers := make([]follower, fast+stall)
	watchers := make([]*Watcher, fast+stall)
	errs := make([]error, fast+stall)
	var wg sync.WaitGroup
	for i := range followers {
		w := watch(t, l, WatchOptions{})
		watchers[i] = w
		pause := func() {}
		if i >= fast {
			r := rand.New(rand.NewPCG(seed, uint64(i)))
			pause = func() {
				if r.IntN(200) > 0 {
					return
				}
				progress.Lock()
				for w.Lag() <= journal && !published.Load() {
					moved.Wait()
				}
				progress.Unlock()
			}
		}
		wg.Go(func() { errs[i] = followers[i].follow(t.Context(), w, pause) })
	}
	for l.Token().Sequence < start+total {
		l.Publish(next())
		for _, w := range watchers[:fast] { // as fast as they are, no faster
			for w.Lag() > journal/2 {
				runtime.Gosched()
			}
		}
		if l.Token().Sequence%64 == 0 {
			moved.Broadcast()
		}
	}
	progress.Lock()
	published.Store(true)
	progress.Unlock()
	moved.Broadcast()
	l.Close()
	wg.Wait()

	end := l.Snapshot()
	stalled := 0
	for i := range followers {
		f := &followers[i]
		if errs[i] != nil {
			t.Errorf("watcher %d: %v", i, errs[i])
			continue
		}
		if i < fast && (f.expired > 0 || f.events != int(end.Token.Sequence-start)) {
			t.Errorf("fast watcher %d: %d events and %d times expired, want %d events", i, f.events, f.expired, end.Token.Sequence-start)
		}
		stalled += f.expired
		if f.last != end.Token || f.syncs != f.expired+1 {
			t.Errorf("watcher %d ends at %s, %d times synced and %d times expired", i, f.last, f.syncs, f.expired)
		}
		if err := f.state.equal(end); err != nil {
			t.Errorf("watcher %d: %v", i, err)
		}
	}
	if got := l.Stats().Expired; stalled == 0 || got != uint64(stalled) {
		t.Errorf("watchers were told %d times that they expired, the log counts %d", stalled, got)
	}
}

// TestWatchersInSteppedTime is the same with a clock of its own: a watcher that
// needs longer for an item than the publisher expires, one that doesn't never
// does.
func TestWatchersInSteppedTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		l := newLog(t, Options{JournalEvents: 64})
		next := regularHistory(seed)
		pace := []time.Duration{0, time.Millisecond, 5 * time.Millisecond, 50 * time.Millisecond, time.Second}
		followers := make([]follower, 5*len(pace))
		errs := make([]error, len(followers))
		var wg sync.WaitGroup
		for i := range followers {
			w := watch(t, l, WatchOptions{})
			wg.Go(func() {
				errs[i] = followers[i].follow(t.Context(), w, func() { time.Sleep(pace[i%len(pace)]) })
			})
		}
		for l.Token().Sequence < 3000 {
			l.Publish(next()) // at most two events
			time.Sleep(10 * time.Millisecond)
		}
		l.Close()
		wg.Wait()
		for i := range followers {
			f := &followers[i]
			if errs[i] != nil {
				t.Errorf("watcher %d: %v", i, errs[i])
			}
			if expired := f.expired > 0; expired != (pace[i%len(pace)] > 10*time.Millisecond) {
				t.Errorf("watcher %d, at one item in %v: expired %d times", i, pace[i%len(pace)], f.expired)
			}
			if err := f.state.equal(l.Snapshot()); err != nil {
				t.Errorf("watcher %d: %v", i, err)
			}
		}
	})
}

// TestWatchersComeAndGo opens, resumes and closes watchers while events are
// published and figures are read.
func TestWatchersComeAndGo(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	l := newLog(t, Options{JournalEvents: 128})
	var wg sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		r := rand.New(rand.NewPCG(seed, uint64(i)))
		wg.Go(func() {
			var f follower
			var since Token
			for {
				w, err := l.Watch(WatchOptions{Since: since})
				if errors.Is(err, ErrClosed) {
					return
				}
				if err == nil {
					if since.IsZero() {
						f = follower{}
					}
					for range r.IntN(100) {
						var item Item
						if item, err = w.Next(t.Context()); err != nil {
							break
						}
						if err = f.take(item); err != nil {
							break
						}
						l.Stats()
					}
					since = w.Token()
					w.Close()
				}
				if err != nil && !errors.Is(err, ErrClosed) {
					errs[i] = err
					return
				}
			}
		})
	}
	next := unknownHistory(seed)
	for l.Token().Sequence < 5000 {
		l.Publish(next())
	}
	l.Close()
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Error(err)
	}
	if n := l.Stats().Watchers; n != 0 {
		t.Errorf("%d watchers are left", n)
	}
}
