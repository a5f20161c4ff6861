package state

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/merge"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/relist"
)

// TestFileHoldsWhatTheLogHolds writes a random history by deltas of any size and
// reads it back at any point.
func TestFileHoldsWhatTheLogHolds(t *testing.T) {
	for seed := range uint64(2) {
		dir := t.TempDir()
		n := newNode(seed)
		l, err := merge.New(merge.Options{JournalEvents: 100, Removed: 30})
		check(t, err)
		s := newShared(t, dir, l, wide)
		for range 25 {
			for range n.rng.IntN(4) {
				publish(l, n, n.rng.IntN(30))
				s.keep()
			}
			want := s.export()
			got := s.read()
			if text(t, got) != text(t, want) {
				t.Fatalf("seed %d: the file has\n%s\nthe log\n%s", seed, text(t, got), text(t, want))
			}
		}
		s.file.close()
		if seed == 0 {
			sharesMemory(t, s.file.path())
		}
	}
}

// sharesMemory: events of one pod have one sandbox in memory.
func sharesMemory(t *testing.T, path string) {
	t.Helper()
	s, err := load(path, time.Hour, time.Now())
	check(t, err)
	places := map[*event.Sandbox]bool{}
	for _, e := range s.Events {
		places[e.Sandbox] = true
	}
	if len(places) > 5 {
		t.Errorf("5 sandboxes take %d places in memory", len(places))
	}
}

func TestJournalIsBounded(t *testing.T) {
	for name, row := range map[string]struct {
		lim  limits
		keep time.Duration
		want func(events int, bytes int64) bool
	}{
		"by count": {limits{10, 1 << 30, time.Hour}, time.Hour, func(n int, _ int64) bool { return n == 10 }},
		"by bytes": {limits{1000, 8000, time.Hour}, time.Hour, func(n int, b int64) bool { return n > 3 && b <= 8000 }},
		"by age":   {limits{1000, 1 << 30, 95 * time.Second}, time.Hour, func(n int, _ int64) bool { return n == 10 }},
		"by age when read": {
			limits{1000, 1 << 30, time.Hour}, 95 * time.Second, func(n int, _ int64) bool { return n == 10 },
		},
		"old altogether": {limits{1000, 1 << 30, time.Hour}, time.Nanosecond, func(n int, _ int64) bool { return n == 0 }},
	} {
		for _, rewritten := range []bool{false, true} {
			t.Run(fmt.Sprint(name, rewritten), func(t *testing.T) {
				now := time.Now().Add(-500 * time.Second)
				l, err := merge.New(merge.Options{Epoch: "e", Now: func() time.Time { return now }})
				check(t, err)
				s := newShared(t, t.TempDir(), l, row.lim)
				s.file.now = func() time.Time { return now }
				n := newNode(1)
				for range 50 {
					now = now.Add(10 * time.Second)
					publish(l, n, 1)
					if !rewritten {
						s.keep()
					}
				}
				s.keep()
				journal := s.file.head.Journal
				s.file.close()
				got, err := load(s.file.path(), row.keep, now.Add(time.Second))
				check(t, err)
				if !row.want(len(got.Events), journal.Bytes) {
					t.Errorf("%d events of %d bytes are kept", len(got.Events), journal.Bytes)
				}
				restored, err := merge.New(merge.Options{Restore: got})
				check(t, err)
				if tok := restored.Token(); tok.Sequence != 50 {
					t.Errorf("the sequence goes on from %d", tok.Sequence)
				}
				// Where the journal begins, and the place before which it has nothing.
				for _, since := range []uint64{50 - uint64(len(got.Events)), 49 - uint64(len(got.Events))} {
					w, err := restored.Watch(merge.WatchOptions{Since: merge.Token{Epoch: "e", Sequence: since}})
					check(t, err)
					item, err := w.Next(t.Context())
					check(t, err)
					w.Close()
					if resumes := since+uint64(len(got.Events)) == 50; resumes == (item.Kind == merge.ItemExpired) {
						t.Errorf("%d events, token %d: %s", len(got.Events), since, item.Kind)
					}
				}
			})
		}
	}
}

// TestFileStaysSmall: what was removed makes room for what comes.
func TestFileStaysSmall(t *testing.T) {
	l, err := merge.New(merge.Options{JournalEvents: 200, Removed: 200})
	check(t, err)
	s := newShared(t, t.TempDir(), l, wide)
	n := newNode(2)
	s.keep()
	var early, late int64
	for i := range 150 {
		publish(l, n, 20)
		s.keep()
		if i == 50 {
			early, _ = s.file.size()
		}
	}
	late, bloated := s.file.size()
	if late > 2*early || bloated {
		t.Errorf("the file grew from %d to %d bytes", early, late)
	}
	// One large burst, and the file is written anew.
	burst(l, 6000)
	s.keep()
	for i := range 6000 {
		l.Publish([]relist.Change{burstChange(event.ContainerRemoved, i)})
	}
	s.keep()
	publish(l, n, 20)
	s.keep()
	if size, bloated := s.file.size(); !bloated {
		t.Fatalf("%d bytes, hardly any of them used, are not too much", size)
	}
	all := s.rec.Export()
	check(t, s.file.rewrite(&all))
	if size, bloated := s.file.size(); size > slack/4 || bloated {
		t.Errorf("written anew it has %d bytes", size)
	}
	if left, err := filepath.Glob(filepath.Join(s.file.dir, "*")); err != nil || len(left) != 1 {
		t.Errorf("there are %v: %v", left, err)
	}
}

func burstChange(typ event.Type, i int) relist.Change {
	return relist.Change{
		Type: typ, Pod: event.Pod{UID: "p"}, Container: &event.Container{ID: fmt.Sprint("b", i)},
		Status: &event.Status{Message: string(make([]byte, 1000))}, // six times as much in JSON
	}
}

func burst(l *merge.Log, n int) {
	for i := range n {
		l.Publish([]relist.Change{burstChange(event.ContainerStarted, i)})
	}
}

// TestRewriteThatFailsLeavesTheFile: the one before is in place until the new one is
// complete.
func TestRewriteThatFailsLeavesTheFile(t *testing.T) {
	l, err := merge.New(merge.Options{})
	check(t, err)
	dir := t.TempDir()
	s := newShared(t, dir, l, wide)
	publish(l, newNode(1), 50)
	want := text(t, s.export())
	// A directory of the name can't be replaced, being not empty.
	check(t, os.MkdirAll(filepath.Join(dir, newName, "x"), 0o700))
	all := s.rec.Export()
	if err := s.file.rewrite(&all); err == nil {
		t.Fatal("it is no error")
	}
	if err := s.file.append(&merge.Delta{}); err == nil {
		t.Error("a delta is added to what was not written")
	}
	got, err := load(s.file.path(), time.Hour, time.Now())
	check(t, err)
	if text(t, got) != want {
		t.Error("the file is not as it was")
	}
}
