package client

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/merge"
)

// link is a connection of a ledger to a daemon's log.
type link struct {
	watcher *merge.Watcher
	lost    bool // an Expired is due
	synced  bool
}

func connect(t *testing.T, l *ledger, d *daemon) *link {
	t.Helper()
	var base []event.PodStatus
	if l.needsBase() {
		base = d.log.Snapshot().Pods
	}
	l.connect(base, d.ready)
	k := &link{}
	k.watch(t, d, l.token)
	return k
}

// watch watches from a place, and no more from where it did before.
func (k *link) watch(t *testing.T, d *daemon, since merge.Token) {
	t.Helper()
	if k.watcher != nil {
		k.watcher.Close()
	}
	*k = link{}
	var err error
	k.watcher, err = d.log.Watch(merge.WatchOptions{Since: since})
	if errors.Is(err, merge.ErrFutureToken) {
		k.lost = true
		k.watcher, err = d.log.Watch(merge.WatchOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// next returns what the daemon sends next; ok is false while that is nothing.
func (k *link) next(t *testing.T) (u Update, ok bool) {
	t.Helper()
	if k.lost {
		k.lost = false
		return Update{Kind: KindReset}, true
	}
	if k.synced && k.watcher.Lag() == 0 {
		return Update{}, false
	}
	item, err := k.watcher.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	u = Update{Pod: item.Pod, Event: item.Event, Token: item.Token}
	switch item.Kind {
	case merge.ItemPod:
		u.Kind = KindPod
	case merge.ItemSynced:
		u.Kind, k.synced = KindSynced, true
	case merge.ItemEvent:
		u.Kind = KindEvent
	case merge.ItemExpired:
		u, k.synced = Update{Kind: KindReset}, false
	}
	return u, true
}

// history is what may happen, each with its weight in a random history.
type history struct {
	daemonRestarts, daemonLoses, daemonForgets, lineBreaks, callerRestarts int
}

// play lets a history happen and returns the caller, who has been told all.
func play(t *testing.T, seed uint64, h history, journal int) *caller {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 11))
	w := &world{rng: rng, now: time.Unix(1_700_000_000, 0).UTC()}
	d := newDaemon(t, w, journal)
	c := &caller{state: NewState()}
	clock := func() time.Time { return w.now }
	all := func(*event.Event) bool { return true }
	newCaller := func() *ledger {
		return newLedger(c.since, all, clock)
	}
	for range rng.IntN(30) { // some of what there is began before the caller
		w.step()
		d.look(t)
		if rng.IntN(8) == 0 {
			d.restart(t, 0)
		}
	}
	l := newCaller()
	k := connect(t, l, d)
	hang := func() {
		k.watcher.Close()
		k = nil
	}
	// deal takes one thing from the daemon; of what it makes the caller may get only
	// some before it crashes.
	deal := func(crash bool) bool {
		u, ok := k.next(t)
		if !ok {
			return false
		}
		out, err := l.take(u)
		if err != nil { // the stream begins anew
			if errors.Is(err, errProtocol) && l.whole {
				t.Fatalf("seed %d: %v", seed, err)
			}
			hang()
			return false
		}
		if crash {
			out = out[:rng.IntN(len(out)+1)]
		}
		for _, u := range out {
			if err := c.deal(u); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if u.Kind == KindSynced && out[0].Kind == KindReset {
				c.begin(d.told(t))
			}
		}
		if l.wantsJournal() {
			for range rng.IntN(2) * rng.IntN(4) { // it moves on meanwhile
				w.step()
				d.look(t)
			}
			oldest := d.log.Stats().OldestToken
			for range rng.IntN(2) * rng.IntN(4) {
				w.step()
				d.look(t)
			}
			k.watch(t, d, l.readJournal(oldest))
		}
		return true
	}
	chance := func(weight int) bool { return rng.IntN(200) < weight }
	for range 1500 {
		w.step()
		if rng.IntN(2) == 0 {
			d.look(t)
		}
		if k == nil {
			if rng.IntN(3) == 0 {
				k = connect(t, l, d)
			}
		} else {
			for range rng.IntN(6) {
				if k == nil || !deal(false) {
					break
				}
			}
		}
		switch {
		case chance(h.daemonRestarts):
			d.restart(t, 0)
		case chance(h.daemonLoses):
			d.restart(t, rng.IntN(keepMost))
		case chance(h.daemonForgets):
			d.forget(t)
		case chance(h.callerRestarts):
			if k != nil {
				deal(true)
			}
			l = newCaller()
		case !chance(h.lineBreaks):
			continue
		}
		if k != nil {
			hang()
		}
	}
	d.look(t)
	for range 10 {
		if k == nil {
			k = connect(t, l, d)
		}
		for k != nil && deal(false) {
		}
		if k != nil && k.synced {
			break
		}
	}
	for _, pods := range [][]event.PodStatus{w.pods, c.state.Pods()} {
		if err := c.agree(pods); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
	// A caller that crashes in a gap is reset, and one that is slower than the journal
	// can't be told all.
	if h.callerRestarts == 0 && journal == longJournal {
		if err := c.complete(d.told(t)); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
	k.watcher.Close()
	return c
}

// The journals of the daemons: one that is soon too short, and one that never is.
const shortJournal, longJournal = 12, 1 << 13

// TestExactlyOnce plays random histories. Whatever happens, no event may be told
// twice or out of order since the last reset, and at the end what was told must add
// up to what there is. Nothing may be missing that the daemon still has in its journal,
// unless that is too short. A caller that keeps running is never reset.
func TestExactlyOnce(t *testing.T) {
	tests := []struct {
		name   string
		h      history
		resets int // at most
	}{
		{"nothing goes wrong", history{}, 1},
		{"lines break", history{lineBreaks: 20}, 1},
		{"the daemon is restarted", history{daemonRestarts: 6, lineBreaks: 4}, 1},
		{"the daemon is killed and loses the last it wrote", history{daemonLoses: 6, lineBreaks: 4}, 1},
		{"the daemon forgets everything", history{daemonForgets: 4, lineBreaks: 4}, 1},
		{"the caller is restarted", history{callerRestarts: 10, lineBreaks: 4}, 1 << 30},
		{"the daemon is killed and the caller is restarted", history{daemonLoses: 12, lineBreaks: 4, callerRestarts: 24}, 1 << 30},
		{"everything", history{4, 4, 2, 8, 6}, 1 << 30},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			chance := rand.Uint64()
			t.Logf("seed of chance: %d", chance)
			events, inferred := 0, 0
			for _, journal := range []int{shortJournal, longJournal} {
				for _, seed := range []uint64{1, 2, chance} {
					c := play(t, seed, tt.h, journal)
					if c.resets > tt.resets || c.resets == 0 {
						t.Errorf("seed %d: %d resets", seed, c.resets)
					}
					events += c.events
					inferred += c.inferred
				}
			}
			if events < 1000 {
				t.Errorf("only %d events were told", events)
			}
			if tt.h != (history{}) && inferred == 0 {
				t.Errorf("no event was made of a snapshot: the histories test too little")
			}
		})
	}
}
