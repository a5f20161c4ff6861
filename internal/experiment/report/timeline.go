package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/hybrid-pleg/hybrid-pleg/internal/experiment/result"
)

// history is all that is known of one container.
type history struct {
	container            string
	repeat               int
	start, exit, removed *result.Transition
	missedBy             int // arms that did not tell its start or its exit
	arms                 int
}

// timeline picks a telling container and shows what each arm knew of it: one on which
// the arms differ most. It is nil where no container that several arms watched was
// observed from its start to its exit.
func (c *maker) timeline(arms []Arm) *Timeline {
	h, of := c.pick()
	if h == nil {
		return nil
	}
	start := h.start.Kernel
	since := func(at int64) float64 { return seconds64(at - start) }
	t := &Timeline{Container: h.container, Moments: []Moment{{"kernel: start", 0}}}
	add := func(text string, tr *result.Transition, from string) {
		if tr != nil && moment(tr, from) > start {
			t.Moments = append(t.Moments, Moment{text, since(moment(tr, from))})
		}
	}
	add("runtime: running", h.start, FromVisible)
	add("kernel: exit", h.exit, FromKernel)
	add("runtime: exited", h.exit, FromVisible)
	if h.removed != nil && h.removed.Visible != 0 {
		add("removed", h.removed, FromVisible)
	} else {
		add("removal asked", h.removed, FromAsked)
	}
	told := func(tr *result.Transition, arm string) *float64 {
		if tr == nil {
			return nil
		}
		at, ok := tr.Told[arm]
		if !ok {
			return nil
		}
		v := since(at.At)
		return &v
	}
	for _, a := range arms {
		if !slices.Contains(h.exit.Arms, a.Name) {
			continue
		}
		t.Rows = append(t.Rows, Row{
			Arm: a.Name, Key: a.Key,
			Start: told(h.start, a.Name), Exit: told(h.exit, a.Name), Removed: told(h.removed, a.Name),
			Inferred: h.start.Told[a.Name].Inferred,
		})
	}
	switch h.missedBy {
	case 0:
		t.Why = fmt.Sprintf("It lived %s. Of the %s containers observed from start to exit none was missed by one arm and told by another; this is the one whose life is nearest to the median.",
			Duration(seconds64(h.exit.Kernel-start)), count(of))
	default:
		t.Why = fmt.Sprintf("It lived %s. Of %s containers observed from start to exit it is one on which the arms differ most: %d of %d missed its start or exit, the others told both; "+
			"among equals it is the one whose life is nearest to their median. So it is a telling case, not a typical one.",
			Duration(seconds64(h.exit.Kernel-start)), count(of), h.missedBy, h.arms)
	}
	return t
}

// pick returns the container to be shown, and among how many it was found.
func (c *maker) pick() (picked *history, of int) {
	type id struct {
		repeat    int
		container string
	}
	all := map[id]*history{}
	for i := range c.data.Transitions {
		t := &c.data.Transitions[i]
		h := all[id{t.Repeat, t.Container}]
		if h == nil {
			h = &history{container: t.Container, repeat: t.Repeat}
			all[id{t.Repeat, t.Container}] = h
		}
		switch t.Kind {
		case result.Start:
			h.start = t
		case result.Exit:
			h.exit = t
		case result.Removed:
			h.removed = t
		}
	}
	var candidates []*history
	for _, h := range all {
		if h.start == nil || h.exit == nil || h.start.Kernel == 0 || h.exit.Kernel <= h.start.Kernel {
			continue
		}
		of++
		for _, arm := range h.exit.Arms {
			_, start := h.start.Told[arm]
			_, exit := h.exit.Told[arm]
			h.arms++
			if !start || !exit {
				h.missedBy++
			}
		}
		// With one arm there is nothing to compare.
		if h.missedBy < h.arms && h.arms > 1 {
			candidates = append(candidates, h)
		}
	}
	if len(candidates) == 0 {
		return nil, of
	}
	// Half of the arms knew it, half did not: nothing differs more.
	split := func(h *history) int { return min(h.missedBy, h.arms-h.missedBy) }
	most := split(slices.MaxFunc(candidates, func(a, b *history) int { return cmp.Compare(split(a), split(b)) }))
	candidates = slices.DeleteFunc(candidates, func(h *history) bool { return split(h) < most })
	lives := make([]float64, len(candidates))
	for i, h := range candidates {
		lives[i] = float64(h.exit.Kernel - h.start.Kernel)
	}
	slices.Sort(lives)
	median := lives[len(lives)/2]
	off := func(h *history) float64 { return math.Abs(float64(h.exit.Kernel-h.start.Kernel) - median) }
	return slices.MinFunc(candidates, func(a, b *history) int {
		return cmp.Or(cmp.Compare(off(a), off(b)), cmp.Compare(a.container, b.container), cmp.Compare(a.repeat, b.repeat))
	}), of
}
