package runner

import (
	"math"
	"slices"
	"testing"

	"github.com/hybrid-pleg/hybrid-pleg/internal/experiment/result"
	"github.com/hybrid-pleg/hybrid-pleg/internal/experiment/stats"
)

// certainty is that of the intervals: this test fails once in some hundred runs for no
// reason but chance.
const certainty = 0.999

// TestTheory compares arms that have nothing but a period with what theory says of
// them: a listing falls anywhere in the period, so that a container is missed with the
// probability 1 − time listed ÷ period, and what is told is late by a time that is
// uniform over the period. Arrivals are Poisson's, so that one container's luck says
// nothing about another's. The period counts from the begin of one listing to the begin
// of the next: the pause and the time that a listing takes, which is read off the count
// of listings.
func TestTheory(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes half a minute")
	}
	o := options(t, `
seed: 7
warm-up: 1s
arms:
- {name: half, triggers: none, period: 500ms}
- {name: one, kind: cri-poll, period: 1s}
- {name: two, triggers: none, period: 2s}
workloads:
- {name: w, arrivals: poisson 30/s, lifetime: uniform 0s 900ms, duration: 20s}
`)
	e := conduct(t, t.Context(), o)
	for _, a := range e.Run.Arms {
		if a.Failed != "" || len(a.Costs) != 1 {
			t.Fatalf("arm %s has failed: %s", a.Name, a.Failed)
		}
		theory := stats.Periodic{Period: listingEvery(a.Name, e.Transitions)}
		if pause := a.Period.Seconds(); theory.Period < pause {
			t.Errorf("%s lists every %.3f s, which is less than its pause of %.3f s", a.Name, theory.Period, pause)
		}
		compareMissed(t, a.Name, theory, e.Transitions)
		compareLatency(t, a.Name, theory, e.Transitions)
	}
}

// listingEvery is the time from one listing to the next, the median. With thirty
// containers a second there is none that shows nothing.
func listingEvery(arm string, transitions []result.Transition) float64 {
	var begun []int64
	for _, tr := range transitions {
		if told, ok := tr.Told[arm]; ok {
			begun = append(begun, told.Observed)
		}
	}
	slices.Sort(begun)
	begun = slices.Compact(begun)
	var gaps []float64
	for i := range begun[1:] {
		// The clocks' offset is measured anew now and then, which moves what is one
		// moment by some microseconds.
		if gap := float64(begun[i+1]-begun[i]) / 1e9; gap > 0.01 {
			gaps = append(gaps, gap)
		}
	}
	slices.Sort(gaps)
	return stats.Quantile(gaps, 0.5)
}

func compareMissed(t *testing.T, arm string, theory stats.Periodic, transitions []result.Transition) {
	missed, n, expected := 0, 0, 0.0
	for _, tr := range transitions {
		if tr.Kind != result.Exit {
			continue
		}
		n++
		expected += theory.Missed(float64(tr.Listed) / 1e9)
		if _, ok := tr.Told[arm]; !ok {
			missed++
		}
	}
	expected /= float64(n)
	shown := stats.Wilson(missed, n, certainty)
	t.Logf("%s: missed %d of %d, %.3f to %.3f; theory %.3f", arm, missed, n, shown.Low, shown.High, expected)
	if !shown.Contains(expected) {
		t.Errorf("%s: of %d exits %d are missed, a share from %.3f to %.3f; theory says %.3f", arm, n, missed, shown.Low, shown.High, expected)
	}
}

// compareLatency compares the share of exits told within each time. The time is to
// the begin of the listing that showed it, so that what an arm does after is left out.
func compareLatency(t *testing.T, arm string, theory stats.Periodic, transitions []result.Transition) {
	var latencies []float64
	var lives []stats.Life
	removed := map[string]int64{}
	for _, tr := range transitions {
		if tr.Kind == result.Removed {
			removed[tr.Container] = tr.Visible
		}
	}
	for _, tr := range transitions {
		if tr.Kind != result.Exit {
			continue
		}
		// As a listing shows it: from the creation to the end, and on to the removal.
		left := removed[tr.Container] - tr.Visible
		lives = append(lives, stats.Life{Running: float64(tr.Listed-left) / 1e9, Listed: float64(tr.Listed) / 1e9})
		if told, ok := tr.Told[arm]; ok {
			latencies = append(latencies, float64(told.Observed-tr.Visible)/1e9)
		}
	}
	slices.Sort(latencies)
	n := float64(len(lives))
	// The band around an empirical distribution function (Dvoretzky, Kiefer, Wolfowitz,
	// Massart).
	band := math.Sqrt(math.Log(2/(1-certainty)) / (2 * n))
	worst, at := 0.0, 0.0
	for i := range 40 {
		x := theory.Period * float64(i+1) / 40
		expected := 0.0
		for _, l := range lives {
			expected += theory.ExitCDF(x, l)
		}
		within, _ := slices.BinarySearch(latencies, x)
		if d := math.Abs(float64(within)/n - expected/n); d > worst {
			worst, at = d, x
		}
	}
	t.Logf("%s: the largest distance of the latencies from theory is %.3f, at %.3f s; the band is %.3f", arm, worst, at, band)
	if worst > band {
		t.Errorf("%s: within %.3f s the share told is %.3f off theory, at most %.3f is chance", arm, at, worst, band)
	}
}
