package relist

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
)

// TestIndex compares it with a map, through any order of puts and removals; few
// distinct IDs at first, so that most searches meet others, then many.
func TestIndex(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, distinct := range []int{1, 5, 12, 100, 5000} {
		x, want := newIndex(), make(map[string]*record)
		for range 20 * distinct {
			id := fmt.Sprint("id-", rng.IntN(distinct))
			if id == "id-0" {
				id = ""
			}
			if rng.IntN(5) < 3 {
				rec := &record{}
				x.put(id, rec)
				want[id] = rec
			} else {
				x.remove(id)
				delete(want, id)
			}
			if probe := fmt.Sprint("id-", rng.IntN(distinct)); x.get(probe) != want[probe] {
				t.Fatalf("%d distinct: another record for %q", distinct, probe)
			}
		}
		if got := maps.Collect(x.all()); !maps.Equal(got, want) || x.len() != len(want) {
			t.Fatalf("%d distinct: %d records, counted %d, want %d", distinct, len(got), x.len(), len(want))
		}
		var ids [lookupBatch]string
		var recs [lookupBatch]*record
		for n := range lookupBatch + 1 {
			for i := range n {
				ids[i] = fmt.Sprint("id-", rng.IntN(distinct+1))
			}
			x.getAll(ids[:n], recs[:])
			for i, id := range ids[:n] {
				if recs[i] != want[id] {
					t.Fatalf("%d distinct: another record for %q, the %d. of %d", distinct, id, i, n)
				}
			}
		}
	}
}

// TestIndexWrapsAround removes where the search goes over the table's end.
func TestIndexWrapsAround(t *testing.T) {
	for seed := range 200 {
		x := newIndex()
		var ids []string
		for i := 0; len(ids) < 6; i++ {
			id := fmt.Sprint(seed, "-", i)
			if h := x.home(x.hash(id)); h >= leastSlots-2 || h == 0 {
				ids = append(ids, id)
				x.put(id, &record{})
			}
		}
		for i, id := range ids {
			x.remove(id)
			for j, other := range ids {
				if got := x.get(other) != nil; got != (j > i) {
					t.Fatalf("%d of %d removed: the %d. is there: %t", i+1, len(ids), j, got)
				}
			}
		}
		if x.len() != 0 {
			t.Fatalf("%d left", x.len())
		}
	}
}
