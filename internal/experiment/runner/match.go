package runner

import (
	"cmp"
	"slices"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/internal/experiment/result"
	"github.com/hybrid-pleg/hybrid-pleg/internal/experiment/truth"
	"github.com/hybrid-pleg/hybrid-pleg/internal/experiment/workload"
)

// witness is an arm as far as matching is concerned.
type witness struct {
	name string
	// grace is how long after a transition it may take to tell it.
	grace time.Duration
	// until is when it stopped watching before it had the time to tell all; 0: it had.
	until int64
	told  func(container string) map[string]result.Told
}

// match puts together what happened to the containers that count and what each
// witness told of it.
func match(phase string, repeat int, lives []workload.Life, of func(id string) truth.Times, witnesses []witness) []result.Transition {
	var out []result.Transition
	for i := range lives {
		l := &lives[i]
		if !l.Counts || !l.Started {
			continue
		}
		times := of(l.Container)
		said := make([]map[string]result.Told, len(witnesses))
		for j, w := range witnesses {
			said[j] = w.told(l.Container)
		}
		for _, t := range transitions(l, times) {
			t.Phase, t.Repeat, t.Told = phase, repeat, map[string]result.Told{}
			for j, w := range witnesses {
				told, ok := said[j][t.Kind]
				if ok {
					t.Told[w.name] = told
				}
				if ok || w.hadTheTime(&t) {
					t.Arms = append(t.Arms, w.name)
				}
			}
			out = append(out, t)
		}
	}
	slices.SortStableFunc(out, func(a, b result.Transition) int { return cmp.Compare(when(&a), when(&b)) })
	return out
}

// hadTheTime reports whether the witness can be said to have missed a transition that
// it did not tell.
func (w *witness) hadTheTime(t *result.Transition) bool {
	return w.until == 0 || when(t) != 0 && when(t)+int64(w.grace) <= w.until
}

// when is the best that is known of when a transition could be told.
func when(t *result.Transition) int64 { return cmp.Or(t.Visible, t.Kernel, t.Asked) }

// transitions are those of a container that has been started. What did not happen, as
// far as is known, is not among them.
func transitions(l *workload.Life, times truth.Times) []result.Transition {
	base := result.Transition{Container: l.Container, Pod: l.Pod, Lifetime: int64(l.Planned)}
	if began, ended := times[truth.Began], times[truth.Ended]; began != 0 && ended > began {
		base.Lifetime = ended - began
	}
	if created, removed := times[truth.ShownCreated], times[truth.ShownRemoved]; created != 0 && removed > created {
		base.Listed = removed - created
	}
	transition := func(kind string, kernel, visible, asked int64) result.Transition {
		t := base
		t.Kind, t.Kernel, t.Visible, t.Asked = kind, kernel, visible, asked
		return t
	}
	out := []result.Transition{transition(result.Start, times[truth.Began], times[truth.ShownRunning], l.AskedStart)}
	if times[truth.Ended] != 0 || times[truth.ShownExited] != 0 || l.AskedRemove != 0 {
		out = append(out, transition(result.Exit, times[truth.Ended], times[truth.ShownExited], l.AskedStop))
	}
	if times[truth.ShownRemoved] != 0 || l.AskedRemove != 0 {
		out = append(out, transition(result.Removed, 0, times[truth.ShownRemoved], l.AskedRemove))
	}
	return out
}
