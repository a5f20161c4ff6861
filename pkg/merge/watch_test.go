package merge

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/relist"
)

func watch(t testing.TB, l *Log, o WatchOptions) *Watcher {
	t.Helper()
	w, err := l.Watch(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	return w
}

// take returns the next n items; they must be there.
func take(t testing.TB, w *Watcher, n int) []Item {
	t.Helper()
	var items []Item
	for range n {
		item, more := w.step()
		for item.Kind == 0 && more {
			item, more = w.step()
		}
		if item.Kind == 0 {
			t.Fatalf("there are only %d of %d items: %s", len(items), n, write(items))
		}
		items = append(items, item)
	}
	return items
}

// rest returns all items that are there.
func rest(w *Watcher) []Item {
	var items []Item
	for {
		item, more := w.step()
		if item.Kind == 0 && !more {
			return items
		}
		if item.Kind != 0 {
			items = append(items, item)
		}
	}
}

// write puts items on a line: "pod:p synced@2 3:c/ContainerStarted expired@1".
func write(items []Item) string {
	var out []string
	for _, it := range items {
		switch it.Kind {
		case ItemPod:
			out = append(out, "pod:"+it.Pod.Pod.UID)
		case ItemEvent:
			out = append(out, fmt.Sprintf("%d:%s", it.Event.Sequence, it.Event.ID))
		default:
			out = append(out, fmt.Sprintf("%s@%s", it.Kind, it.Token))
		}
	}
	return strings.Join(out, " ")
}

func wantItems(t *testing.T, got []Item, want string) {
	t.Helper()
	if write(got) != want {
		t.Errorf("got  %s\nwant %s", write(got), want)
	}
}

// publish tells the start of one container after another, each in its own pod.
func publish(l *Log, ids ...string) {
	for _, id := range ids {
		l.Publish([]relist.Change{changeIn(id, event.ContainerStarted, id)})
	}
}

func TestWatchFromASnapshot(t *testing.T) {
	l := newLog(t, Options{Epoch: "e"})
	wantItems(t, rest(watch(t, l, WatchOptions{})), "synced@e-0")

	publish(l, "a", "b")
	w := watch(t, l, WatchOptions{})
	publish(l, "c")
	wantItems(t, rest(w), "pod:a pod:b synced@e-2 3:c/ContainerStarted")
	publish(l, "d")
	wantItems(t, rest(w), "4:d/ContainerStarted")
	if w.Lag() != 0 || w.Token() != (Token{"e", 4}) {
		t.Errorf("lag %d, token %s", w.Lag(), w.Token())
	}
}

func TestWatchSince(t *testing.T) {
	l := newLog(t, Options{Epoch: "e"})
	publish(l, "a", "b", "c")

	w := watch(t, l, WatchOptions{Since: Token{"e", 1}})
	publish(l, "d")
	wantItems(t, rest(w), "2:b/ContainerStarted 3:c/ContainerStarted synced@e-3 4:d/ContainerStarted")

	w = watch(t, l, WatchOptions{Since: l.Token()})
	wantItems(t, rest(w), "synced@e-4")
	publish(l, "e")
	wantItems(t, rest(w), "5:e/ContainerStarted")

	w = watch(t, l, WatchOptions{Since: Token{"e", 0}})
	if got := rest(w); len(got) != 6 || got[5].Kind != ItemSynced {
		t.Errorf("since the very beginning: %s", write(got))
	}
}

func TestWatchRefusesTokens(t *testing.T) {
	l := newLog(t, Options{Epoch: "e"})
	publish(l, "a")
	for _, row := range []struct {
		token Token
		want  error
	}{
		{Token{"e", 2}, ErrFutureToken},
		{Token{"", 1}, ErrBadToken},
		{Token{"a b", 1}, ErrBadToken},
	} {
		w, err := l.Watch(WatchOptions{Since: row.token})
		if !errors.Is(err, row.want) || w != nil {
			t.Errorf("since %+v: %v, want %v", row.token, err, row.want)
		}
	}
	if n := l.Stats().Watchers; n != 0 {
		t.Errorf("%d watchers are counted that were refused", n)
	}
}

func TestWatchExpires(t *testing.T) {
	l := newLog(t, Options{Epoch: "e", JournalEvents: 2})
	publish(l, "a", "b", "c")

	// Asked for too late: 2 and 3 are there, 1 is not.
	wantItems(t, rest(watch(t, l, WatchOptions{Since: Token{"e", 0}})), "expired@e-0 pod:a pod:b pod:c synced@e-3")
	wantItems(t, rest(watch(t, l, WatchOptions{Since: Token{"e", 1}})), "2:b/ContainerStarted 3:c/ContainerStarted synced@e-3")
	// Of another epoch.
	other := watch(t, l, WatchOptions{Since: Token{"other", 99}})
	if other.Lag() != 0 || !other.Token().IsZero() {
		t.Errorf("another epoch's: lag %d, token %s", other.Lag(), other.Token())
	}
	wantItems(t, rest(other), "expired@other-99 pod:a pod:b pod:c synced@e-3")

	// Fell behind: while live, in the middle of catching up, and during the
	// snapshot, which is whole all the same.
	live := watch(t, l, WatchOptions{Since: l.Token()})
	catching := watch(t, l, WatchOptions{Since: Token{"e", 1}})
	snap := watch(t, l, WatchOptions{})
	take(t, live, 1)
	take(t, catching, 1)
	take(t, snap, 1)
	publish(l, "d", "e", "f")
	if live.Lag() != 3 || catching.Lag() != 4 || snap.Lag() != 3 {
		t.Errorf("lags %d, %d, %d; want 3, 4, 3", live.Lag(), catching.Lag(), snap.Lag())
	}
	all := "pod:a pod:b pod:c pod:d pod:e pod:f synced@e-6"
	wantItems(t, rest(live), "expired@e-3 "+all)
	wantItems(t, rest(catching), "expired@e-2 "+all)
	wantItems(t, rest(snap), "pod:b pod:c synced@e-3 expired@e-3 "+all)

	// And again, right after the Expired: the snapshot is of when it is taken.
	publish(l, "g", "h", "i")
	take(t, live, 1)
	publish(l, "j", "k", "l")
	wantItems(t, rest(live), strings.TrimSuffix(all, "synced@e-6")+"pod:g pod:h pod:i pod:j pod:k pod:l synced@e-12")
}

// TestTokenOfAWatcher: the token is one to resume from, at every item.
func TestTokenOfAWatcher(t *testing.T) {
	l := newLog(t, Options{Epoch: "e", JournalEvents: 3})
	publish(l, "a", "b")
	w := watch(t, l, WatchOptions{})
	var got []string
	note := func(n int) {
		for range n {
			item := take(t, w, 1)[0]
			got = append(got, fmt.Sprintf("%s %s", item.Kind, w.Token()))
			if item.Kind == ItemSynced || item.Kind == ItemEvent {
				if item.Token != w.Token() {
					t.Errorf("%s: token %s, the watcher's is %s", write([]Item{item}), item.Token, w.Token())
				}
			}
		}
	}
	note(2)
	publish(l, "c", "d")
	note(2)
	publish(l, "e", "f", "g")
	note(2)
	want := []string{"pod ", "pod ", "synced e-2", "event e-3", "expired ", "pod "}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestFilters(t *testing.T) {
	l := newLog(t, Options{Epoch: "e"})
	publish(l, "a", "b", "c")
	w := watch(t, l, WatchOptions{
		Pods:   func(p *event.PodStatus) bool { return p.Pod.UID == "b" },
		Events: func(e *event.Event) bool { return e.Pod.UID > "e" },
	})
	publish(l, "d", "e", "f")
	wantItems(t, rest(w), "pod:b synced@e-3 6:f/ContainerStarted")
	publish(l, "a2", "a3")
	wantItems(t, rest(w), "")
	if w.Token() != (Token{"e", 8}) || w.Lag() != 0 {
		t.Errorf("what was passed over is not counted as seen: token %s, lag %d", w.Token(), w.Lag())
	}

	// Many in a row that do not fit.
	w = watch(t, l, WatchOptions{Since: l.Token(), Events: func(e *event.Event) bool { return e.Pod.UID == "z" }})
	for i := range 3 * stride {
		publish(l, fmt.Sprint("x", i))
	}
	publish(l, "z")
	if got := write(rest(w)); got != "synced@e-8 3081:z/ContainerStarted" {
		t.Errorf("got %s", got)
	}
}

// TestResumeFromEveryToken stops a watcher after each of its items and goes on
// with another one from its token; both together must have told the same as one
// alone.
func TestResumeFromEveryToken(t *testing.T) {
	for _, seed := range seeds(t) {
		l := newLog(t, Options{})
		next := regularHistory(seed)
		for range 50 {
			l.Publish(next())
		}
		var watchers []*Watcher // the n-th stops after n items
		for range 100 {
			watchers = append(watchers, watch(t, l, WatchOptions{}))
		}
		for range 150 {
			l.Publish(next())
		}
		for n, w := range watchers {
			before := take(t, w, n+1)
			o := WatchOptions{Since: w.Token()}
			if w.Token().IsZero() {
				before = nil // the snapshot starts again
			}
			after := rest(watch(t, l, o))
			f := newFold()
			last := Token{}
			for _, item := range slices.Concat(before, after) {
				switch item.Kind {
				case ItemPod:
					f.addPod(item.Pod)
				case ItemEvent:
					f.apply(item.Event)
				case ItemExpired:
					t.Fatalf("seed %d: expired at %s", seed, item.Token)
				}
				if item.Kind == ItemEvent && item.Token.Sequence != last.Sequence+1 {
					t.Fatalf("seed %d, stopped after %d items: event %d follows %s", seed, n+1, item.Token.Sequence, last)
				}
				if !item.Token.IsZero() {
					last = item.Token
				}
			}
			if last != l.Token() {
				t.Fatalf("seed %d, stopped after %d items: ends at %s, want %s", seed, n+1, last, l.Token())
			}
			if err := f.equal(l.Snapshot()); err != nil {
				t.Fatalf("seed %d, stopped after %d items: %v", seed, n+1, err)
			}
		}
	}
}

func TestNextWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLog(t, Options{Epoch: "e"})
		ctx, cancel := context.WithCancel(t.Context())
		const watchers = 20
		var got [watchers][]Item
		var errs [watchers]error
		open := make([]*Watcher, watchers)
		for i := range watchers {
			open[i] = watch(t, l, WatchOptions{})
			go func() {
				for item, err := range open[i].All(ctx) {
					if errs[i] = err; err == nil {
						got[i] = append(got[i], item)
					}
				}
			}()
		}
		want := "synced@e-0"
		check := func() {
			t.Helper()
			synctest.Wait() // all wait, so none has missed the bell
			for i := range watchers {
				if write(got[i]) != want {
					t.Fatalf("watcher %d: got %s, want %s", i, write(got[i]), want)
				}
			}
		}
		check()
		for n := range 50 {
			id := fmt.Sprint("c", n)
			publish(l, id)
			want += fmt.Sprintf(" %d:%s/ContainerStarted", n+1, id)
			if n%3 > 0 {
				check()
			}
		}

		open[0].Close()
		synctest.Wait()
		if !errors.Is(errs[0], ErrClosed) || errs[1] != nil {
			t.Errorf("one watcher is closed: it ends with %v, another one with %v", errs[0], errs[1])
		}
		cancel()
		synctest.Wait()
		if !errors.Is(errs[1], context.Canceled) {
			t.Errorf("the context is cancelled: a watcher ends with %v", errs[1])
		}

		// The error took nothing away.
		publish(l, "more")
		if item, err := open[1].Next(t.Context()); err != nil || item.Event == nil || item.Event.Sequence != 51 {
			t.Errorf("after a cancelled Next comes %+v, %v", item, err)
		}
		short, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		if item, err := open[1].Next(short); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("with nothing more to come: %+v, %v", item, err)
		}
	})
}

func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLog(t, Options{Epoch: "e"})
		publish(l, "a")
		waiting := watch(t, l, WatchOptions{Since: l.Token()})
		behind := watch(t, l, WatchOptions{Since: Token{"e", 0}})
		starting := watch(t, l, WatchOptions{})
		take(t, waiting, 1)
		ended := make(chan error, 3)
		for range 3 {
			w := watch(t, l, WatchOptions{Since: l.Token()})
			take(t, w, 1)
			go func() {
				_, err := w.Next(t.Context())
				ended <- err
			}()
		}
		synctest.Wait()
		l.Close()
		l.Close()
		for range 3 {
			if err := <-ended; !errors.Is(err, ErrClosed) {
				t.Errorf("a watcher that waited ends with %v", err)
			}
		}
		for name, row := range map[string]struct {
			w    *Watcher
			want string
		}{
			"caught up":       {waiting, ""},
			"behind":          {behind, "1:a/ContainerStarted synced@e-1"},
			"in the snapshot": {starting, "pod:a synced@e-1"},
		} {
			var got []Item
			var end error
			for item, err := range row.w.All(t.Context()) {
				if end = err; err == nil {
					got = append(got, item)
				}
			}
			if write(got) != row.want || !errors.Is(end, ErrClosed) {
				t.Errorf("%s: got %s and %v, want %s and ErrClosed", name, write(got), end, row.want)
			}
		}
		if w, err := l.Watch(WatchOptions{}); !errors.Is(err, ErrClosed) || w != nil {
			t.Errorf("Watch after Close: %v", err)
		}
		if got := l.Publish([]relist.Change{change(event.ContainerStarted, "b")}); got != nil || l.Token() != (Token{"e", 1}) {
			t.Errorf("Publish after Close: %v, token %s", got, l.Token())
		}
		if len(l.Snapshot().Pods) != 1 {
			t.Error("no snapshot after Close")
		}
	})
}

func TestWatcherClosedBeforeNext(t *testing.T) {
	l := newLog(t, Options{})
	publish(l, "a")
	w := watch(t, l, WatchOptions{})
	w.Close()
	if item, err := w.Next(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("got %+v, %v", item, err)
	}
}

// TestAllStops: leaving the loop leaves the watcher usable.
func TestAllStops(t *testing.T) {
	l := newLog(t, Options{Epoch: "e"})
	publish(l, "a", "b")
	w := watch(t, l, WatchOptions{})
	for item := range w.All(t.Context()) {
		if item.Kind == ItemPod {
			break
		}
	}
	wantItems(t, rest(w), "pod:b synced@e-2")
}

func TestItemKindNames(t *testing.T) {
	for k, want := range map[ItemKind]string{ItemPod: "pod", ItemSynced: "synced", ItemEvent: "event", ItemExpired: "expired", 9: "ItemKind(9)"} {
		if k.String() != want {
			t.Errorf("kind %d is written %q, want %q", uint8(k), k, want)
		}
	}
}
