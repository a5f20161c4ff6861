package merge

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
)

func appendTo(j *journal, n int) {
	for range n {
		j.append(&event.Event{Sequence: j.last + 1})
		j.reveal()
	}
}

// has returns the first and last event that a reader gets.
func (j *journal) has() (first, last uint64) {
	for s := uint64(1); s <= j.head.Load(); s++ {
		e := j.at(s)
		if e == nil {
			continue
		}
		if first == 0 {
			first = s
		}
		last = s
	}
	return first, last
}

func TestJournalWrapsAround(t *testing.T) {
	for _, n := range []int{1, 2, 3, 7} {
		j := newJournal(n, 1<<20)
		for count := 1; count <= 5*n+1; count++ {
			appendTo(j, 1)
			first, last := j.has()
			wantFirst := uint64(max(1, count-n+1))
			if first != wantFirst || last != uint64(count) || j.oldest != wantFirst {
				t.Fatalf("%d slots, %d events: readers get %d to %d, oldest is %d; want %d to %d",
					n, count, first, last, j.oldest, wantFirst, count)
			}
		}
		if want := int64(n) * size(&event.Event{}); j.bytes != want {
			t.Errorf("%d slots: %d bytes in the books, want %d", n, j.bytes, want)
		}
	}
}

func TestJournalShowsABatchAtOnce(t *testing.T) {
	j := newJournal(4, 1<<20)
	appendTo(j, 2)
	for range 6 { // more than the ring holds
		j.append(&event.Event{Sequence: j.last + 1})
		if j.head.Load() != 2 {
			t.Fatalf("head is %d before the batch is complete", j.head.Load())
		}
	}
	if j.at(1) != nil || j.at(2) != nil {
		t.Error("an event whose slot was used again is still found")
	}
	j.reveal()
	if first, last := j.has(); first != 5 || last != 8 {
		t.Errorf("readers get %d to %d, want 5 to 8", first, last)
	}
}

func TestJournalIsBoundedInBytes(t *testing.T) {
	long := &event.Status{Message: strings.Repeat("x", 4000)}
	j := newJournal(1000, 20_000)
	for i := range 300 {
		e := &event.Event{Sequence: j.last + 1}
		if i%3 == 0 {
			e.Status = long
		}
		j.append(e)
		j.reveal()
		var sum int64
		for s := j.oldest; s <= j.last; s++ {
			sum += size(j.at(s))
		}
		if j.bytes != sum || sum > 20_000 {
			t.Fatalf("after %d events: %d bytes in the books, %d held, want no more than 20000", j.last, j.bytes, sum)
		}
	}
	first, last := j.has()
	if first != j.oldest || last != 300 || last-first < 5 {
		t.Errorf("readers get %d to %d, oldest is %d", first, last, j.oldest)
	}

	// One event larger than the bound is kept, alone.
	j.append(&event.Event{Sequence: 301, Status: &event.Status{Message: strings.Repeat("x", 50_000)}})
	j.reveal()
	if first, last := j.has(); first != 301 || last != 301 {
		t.Errorf("readers get %d to %d, want the large event", first, last)
	}
	appendTo(j, 1)
	if first, last := j.has(); first != 302 || last != 302 {
		t.Errorf("readers get %d to %d, want only the event after the large one", first, last)
	}
}

// TestJournalCountsWhatIsShared has events of a few pods, whose annotations are large
// beside all else: each pod's count once, from its first event in the journal to its
// last.
func TestJournalCountsWhatIsShared(t *testing.T) {
	const bound = 50_000
	j := newJournal(40, bound)
	sandbox := func(n int) *event.Sandbox {
		return &event.Sandbox{ID: "s", Annotations: map[string]string{"note": strings.Repeat("x", n)}}
	}
	pods := []*event.Sandbox{nil, sandbox(100), sandbox(9000), sandbox(20_000)}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		if rng.IntN(20) == 0 { // a pod goes, another comes
			pods[1+rng.IntN(3)] = sandbox(rng.IntN(20_000))
		}
		j.append(&event.Event{Sequence: j.last + 1, Sandbox: pods[rng.IntN(len(pods))]})
		j.reveal()
		var sum int64
		seen := map[*event.Sandbox]int{}
		for s := j.oldest; s <= j.last; s++ {
			e := j.at(s)
			sum += size(e)
			if e.Sandbox == nil {
				continue
			}
			if seen[e.Sandbox]++; seen[e.Sandbox] == 1 {
				sum += int64(len(e.Sandbox.Annotations["note"]))
			}
		}
		least, most := sum, sum+int64(len(seen))*300 // what else a sandbox holds
		if j.bytes < least || j.bytes > most || j.bytes > bound {
			t.Fatalf("after %d events: %d bytes in the books, %d to %d held, want no more than %d", j.last, j.bytes, least, most, bound)
		}
		if len(j.sandboxes) != len(seen) {
			t.Fatalf("after %d events: %d sandboxes in the books, %d held", j.last, len(j.sandboxes), len(seen))
		}
	}
	appendTo(j, 40)
	if want := 40 * size(&event.Event{}); j.bytes != want || len(j.sandboxes) != 0 {
		t.Errorf("with the last of their events gone: %d bytes and %d sandboxes in the books, want %d and none", j.bytes, len(j.sandboxes), want)
	}
}
