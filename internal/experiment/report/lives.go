package report

import (
	"slices"
	"strings"

	"github.com/hybrid-pleg/hybrid-pleg/internal/experiment/result"
	"github.com/hybrid-pleg/hybrid-pleg/internal/experiment/stats"
)

// theory is that of an arm which has nothing but a period; nil for any other.
type theory struct {
	Theory
	periodic stats.Periodic
	// infers: it tells the start of a container that it first saw exited.
	infers bool
}

// theory counts an arm's true period from its calls where they are known: each
// listing of everything calls ListContainers once.
func (c *maker) theory(a result.Arm) *theory {
	if !Periodic(a) {
		return nil
	}
	t := &theory{Theory: Theory{Period: a.Period.Seconds()}, infers: a.Kind == result.Hybrid}
	window, lists := 0.0, uint64(0)
	for _, cost := range a.Costs {
		if cost.Phase != c.data.Workload || cost.RPCs == nil {
			continue
		}
		window += cost.Window
		for method, n := range cost.RPCs {
			// Of the streaming form, one call is one listing as well.
			if strings.HasSuffix(method, "ListContainers") || strings.HasSuffix(method, "StreamContainers") {
				lists += n
			}
		}
	}
	// From a handful of listings the pause is known better than the period can be counted.
	const enoughLists = 5
	if lists >= enoughLists && window > 0 {
		if counted := window / float64(lists); counted >= t.Period {
			t.Period, t.Counted = counted, true
		}
	}
	var delays []float64
	for i := range c.data.Transitions {
		if told, ok := c.data.Transitions[i].Told[a.Name]; ok && told.Observed != 0 {
			delays = append(delays, seconds64(told.At-told.Observed))
		}
	}
	if len(delays) > 0 {
		slices.Sort(delays)
		t.Delay = stats.Quantile(delays, 0.5)
	}
	t.periodic = stats.Periodic{Period: t.Period}
	return t
}

func (t *theory) figures(d *Data) *Theory {
	if t == nil {
		return nil
	}
	missed, n := 0.0, 0
	for i := range d.Transitions {
		if tr := &d.Transitions[i]; tr.Kind == result.Exit {
			missed += t.periodic.Missed(life(tr).Listed)
			n++
		}
	}
	if n > 0 {
		t.MissedExits = missed / float64(n)
	}
	return &t.Theory
}

// life returns how long the container of a transition could be seen, in seconds.
func life(t *result.Transition) stats.Life {
	running := seconds64(t.Lifetime)
	return stats.Life{Running: running, Listed: max(running, seconds64(t.Listed))}
}

// startVisible returns for how long after its start a start could be told.
func (t *theory) startVisible(tr *result.Transition) float64 {
	if t.infers {
		return life(tr).Listed
	}
	return life(tr).Running
}

// curve returns what theory says of the share told within each of the times of a
// measured curve, and some before it.
func (t *theory) curve(d *Data, kind, from string, measured []Point) []Point {
	if t == nil || kind == result.Removed || from == FromAsked {
		return nil
	}
	// The kernel is ahead of what a listing can show.
	shift := t.Delay
	if from == FromKernel {
		shift += lag(d, kind)
	}
	var lives []*result.Transition
	for i := range d.Transitions {
		if d.Transitions[i].Kind == kind {
			lives = append(lives, &d.Transitions[i])
		}
	}
	// A curve that is drawn needs no more lives than pixels.
	stride := max(1, len(lives)/500)
	const points = 80
	last := max(measured[len(measured)-1].X, t.Period+shift)
	curve := make([]Point, 0, points+1)
	for i := range points + 1 {
		// Dense where the logarithmic axis is.
		share := float64(i) / points
		x := shift + (last-shift)*share*share*share
		sum, n := 0.0, 0
		for j := 0; j < len(lives); j += stride {
			if kind == result.Start {
				sum += t.periodic.StartCDF(x-shift, t.startVisible(lives[j]))
			} else {
				sum += t.periodic.ExitCDF(x-shift, life(lives[j]))
			}
			n++
		}
		curve = append(curve, Point{x, sum / float64(n)})
	}
	return curve
}

// lag returns how long after the kernel the runtime showed such transitions, the
// median; 0 where one of the two was not observed.
func lag(d *Data, kind string) float64 {
	var lags []float64
	for i := range d.Transitions {
		if t := &d.Transitions[i]; t.Kind == kind && t.Kernel != 0 && t.Visible != 0 {
			lags = append(lags, seconds64(t.Visible-t.Kernel))
		}
	}
	if len(lags) == 0 {
		return 0
	}
	slices.Sort(lags)
	return max(0, stats.Quantile(lags, 0.5))
}

// visibleFor returns for how long what the chart of a kind is about could be seen: an exit
// as long as the container was listed, "running" as long as it ran.
func visibleFor(t *result.Transition) float64 {
	if t.Kind == result.Start {
		return life(t).Running
	}
	return life(t).Listed
}

// lifeEdges returns the edges of the bins of lives: at most eight bins with about as
// many containers each, none with fewer than 25.
func lifeEdges(d *Data, kind string) []float64 {
	var lives []float64
	for i := range d.Transitions {
		if t := &d.Transitions[i]; t.Kind == kind && visibleFor(t) > 0 {
			lives = append(lives, visibleFor(t))
		}
	}
	if len(lives) == 0 {
		return nil
	}
	slices.Sort(lives)
	shortest, longest := lives[0], lives[len(lives)-1]
	bins := min(8, max(1, len(lives)/25))
	// Lives that are all alike are one bin.
	if longest < 1.2*shortest {
		bins = 1
	}
	edges := []float64{shortest}
	for i := 1; i < bins; i++ {
		if e := stats.Quantile(lives, float64(i)/float64(bins)); e > edges[len(edges)-1] {
			edges = append(edges, e)
		}
	}
	return append(edges, longest)
}

// byLife counts what an arm missed by how long it could be seen. A bin holds its lower
// edge, the last both.
func byLife(d *Data, a result.Arm, kind string, edges []float64, theory *theory) []LifeBin {
	if len(edges) < 2 {
		return nil
	}
	bins := make([]LifeBin, len(edges)-1)
	expected := make([]float64, len(bins))
	for i := range bins {
		bins[i].From, bins[i].To = edges[i], edges[i+1]
	}
	for i := range d.Transitions {
		t := &d.Transitions[i]
		if t.Kind != kind || visibleFor(t) <= 0 || !slices.Contains(t.Arms, a.Name) {
			continue
		}
		at, found := slices.BinarySearch(edges, visibleFor(t))
		if !found {
			at--
		}
		at = min(at, len(bins)-1)
		b := &bins[at]
		b.Of++
		b.Mean += visibleFor(t)
		if told, ok := t.Told[a.Name]; !ok || kind == result.Start && told.Inferred {
			b.Missed++
		}
		if theory != nil {
			expected[at] += theory.periodic.Missed(visibleFor(t))
		}
	}
	for i := range bins {
		b := &bins[i]
		if b.Of == 0 {
			continue
		}
		b.Mean /= float64(b.Of)
		b.Share = float64(b.Missed) / float64(b.Of)
		b.Interval = stats.Wilson(b.Missed, b.Of, level)
		if theory != nil {
			share := expected[i] / float64(b.Of)
			b.Theory = &share
		}
	}
	return slices.DeleteFunc(bins, func(b LifeBin) bool { return b.Of == 0 })
}
