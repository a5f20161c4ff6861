package differential

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

var (
	histories = flag.Int("histories", 2000, "how many random histories to play")
	first     = flag.Uint64("first", 1, "the seed of the first history; the others follow")
	one       = flag.Uint64("seed", 0, "play only the history of this seed")
)

// portion is how many histories one parallel subtest plays.
const portion = 500

// TestHistories plays random histories to both generators.
func TestHistories(t *testing.T) {
	if *one != 0 {
		h := randomHistory(*one)
		t.Logf("the history of seed %d:\n%s", *one, h)
		newStage(t).check(t, *one, h, make(tally))
		return
	}
	var (
		mu    sync.Mutex
		done  int
		total = make(tally)
		begun = time.Now()
	)
	t.Run("portions", func(t *testing.T) {
		for from := 0; from < *histories; from += portion {
			t.Run(fmt.Sprintf("from-%d", *first+uint64(from)), func(t *testing.T) {
				t.Parallel()
				s, met := newStage(t), make(tally)
				n := min(portion, *histories-from)
				for i := range n {
					seed := *first + uint64(from+i)
					if !s.check(t, seed, randomHistory(seed), met) {
						return
					}
				}
				mu.Lock()
				defer mu.Unlock()
				total.add(met)
				done += n
				t.Logf("%d of %d histories played in %s", done, *histories, time.Since(begun).Round(time.Second))
			})
		}
	})
	if t.Failed() {
		return
	}
	for _, what := range []string{"compared directly", string(statusUnread), string(leftOut), toldTwice, outOfOrder, afterRemoval} {
		t.Logf("%s: %d", what, total[what])
		if total[what] == 0 && *histories >= portion {
			t.Errorf("no history had %q: the test shows nothing about it", what)
		}
	}
}

// check plays a history and fails the test, with a history as short as can be found,
// when the generators differ.
func (s *stage) check(t *testing.T, seed uint64, h history, met tally) bool {
	t.Helper()
	wrong := compare(h, s.play(t, h, nil), met)
	if len(wrong) == 0 {
		return true
	}
	small := shrink(h, func(h history) bool { return len(compare(h, s.play(t, h, nil), make(tally))) > 0 })
	t.Errorf("the generators differ; to repeat it: go test ./differential -run TestHistories -seed %d\n%s\nthe same in short:\n%s%s",
		seed, strings.Join(wrong, "\n"), small, strings.Join(compare(small, s.play(t, small, nil), make(tally)), "\n"))
	return false
}

// shrink leaves out of a history whatever can be left out so that it still fails.
func shrink(h history, fails func(history) bool) history {
	for {
		smaller := slices.Collect(func(yield func(history) bool) {
			for i := range h {
				if !yield(slices.Delete(slices.Clone(h), i, i+1)) {
					return
				}
			}
			for _, id := range h.ids() {
				if !yield(h.transform(func(_ *step, things []thing) []thing {
					return slices.DeleteFunc(slices.Clone(things), func(t thing) bool { return t.id == id })
				})) {
					return
				}
			}
		})
		i := slices.IndexFunc(smaller, fails)
		if i < 0 {
			return h
		}
		h = smaller[i]
	}
}

// ids are those of all things that a history shows.
func (h history) ids() []string {
	var ids []string
	for i := range h {
		for _, t := range h[i].things() {
			ids = append(ids, t.id)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}
