package stats

import (
	"math"
	"math/rand/v2"
	"testing"
)

// blocked draws a sample whose blocks each have an effect of their own: within a
// block, values are correlated. The median of the whole is 10.
func blocked(r *rand.Rand, blocks, each int, shift float64) Sample {
	var values []float64
	var block []int
	for b := range blocks {
		effect := r.NormFloat64()
		for range each {
			values = append(values, 10+shift+effect+0.3*r.NormFloat64())
			block = append(block, b)
		}
	}
	return NewSample(values, block, blocks)
}

func TestMedianCoverage(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	const trials = 120
	blocks, alone := 0, 0
	for i := range trials {
		s := blocked(r, 40, 10, 0)
		b := Bootstrap{Resamples: 150, Level: 0.95, Seed: uint64(i)}
		if b.Quantiles(s, []float64{0.5})[0].Contains(10) {
			blocks++
		}
		// The same values, taken for independent: what blocks are there for.
		own := make([]int, s.Len())
		for i := range own {
			own[i] = i
		}
		if b.Quantiles(NewSample(s.Sorted(), own, s.Len()), []float64{0.5})[0].Contains(10) {
			alone++
		}
	}
	if share := float64(blocks) / trials; share < 0.89 || share > 0.98 {
		t.Errorf("coverage %.3f, want about 0.95", share)
	}
	if share := float64(alone) / trials; share > 0.7 {
		t.Errorf("without blocks the coverage is %.3f: the data are not correlated, the test is worth nothing", share)
	}
}

func TestContrastCoverage(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	const trials = 120
	paired, unpaired := 0, 0
	narrower := 0
	for i := range trials {
		b := Bootstrap{Resamples: 150, Level: 0.95, Seed: uint64(i)}
		x, y := blocked(r, 40, 10, 2), blocked(r, 40, 10, 0)
		u := b.Unpaired(x, y, 0.5)
		if u.DifferenceInterval.Contains(2) {
			unpaired++
		}
		// The same transitions: what y saw plus 2 and some noise.
		together := make([]float64, y.Len())
		for i, v := range y.Sorted() {
			together[i] = v + 2 + 0.1*r.NormFloat64()
		}
		p := b.Paired(NewSample(together, y.block, y.blocks), y, 0.5)
		if p.DifferenceInterval.Contains(2) {
			paired++
		}
		if p.DifferenceInterval.High-p.DifferenceInterval.Low < u.DifferenceInterval.High-u.DifferenceInterval.Low {
			narrower++
		}
		if !near(p.Ratio, p.Difference/y.Quantile(0.5)+1, 1e-9) || p.RatioInterval == nil {
			t.Fatalf("ratio %v does not fit the difference %v", p.Ratio, p.Difference)
		}
	}
	for name, n := range map[string]int{"paired": paired, "unpaired": unpaired} {
		// The difference of two medians that move together is cautious: it may cover more.
		if share := float64(n) / trials; share < 0.89 {
			t.Errorf("%s: coverage %.3f, want about 0.95 or more", name, share)
		}
	}
	if narrower < trials*95/100 {
		t.Errorf("pairing made the interval narrower in %d of %d only", narrower, trials)
	}
}

// The median of paired differences, where the difference varies from block to block.
func TestMedianOfDifferencesCoverage(t *testing.T) {
	r := rand.New(rand.NewPCG(10, 10))
	const trials = 120
	hits := 0
	for i := range trials {
		differences := blocked(r, 30, 8, -8) // around 2
		b := Bootstrap{Resamples: 150, Level: 0.95, Seed: uint64(i)}
		if b.Quantiles(differences, []float64{0.5})[0].Contains(2) {
			hits++
		}
	}
	if share := float64(hits) / trials; share < 0.89 || share > 0.98 {
		t.Errorf("coverage %.3f, want about 0.95", share)
	}
}

func TestBootstrapRepeats(t *testing.T) {
	s := blocked(rand.New(rand.NewPCG(5, 5)), 20, 30, 0)
	b := Bootstrap{Resamples: 200, Level: 0.95, Seed: 7}
	quantiles := []float64{0.5, 0.9}
	first, second := b.Quantiles(s, quantiles), b.Quantiles(s, quantiles)
	b.Seed = 8
	other := b.Quantiles(s, quantiles)
	for i := range quantiles {
		if *first[i] != *second[i] {
			t.Errorf("the same seed gave %v and %v", *first[i], *second[i])
		}
		if *first[i] == *other[i] {
			t.Errorf("two seeds gave the same interval %v", *first[i])
		}
		if !first[i].Contains(s.Quantile(quantiles[i])) {
			t.Errorf("%v does not hold the estimate", *first[i])
		}
	}
}

func TestNoIntervalFromTooLittle(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 6))
	b := Bootstrap{Resamples: 50, Level: 0.95}
	if got := b.Quantiles(blocked(r, MinBlocks-1, 100, 0), []float64{0.5}); got[0] != nil {
		t.Errorf("%d blocks gave %v", MinBlocks-1, *got[0])
	}
	got := b.Quantiles(blocked(r, 10, 10, 0), []float64{0.5, 0.9, 0.99})
	if got[0] == nil || got[1] == nil || got[2] != nil {
		t.Errorf("of 100 values p50 and p90 have an interval, p99 has none; got %v", got)
	}
	c := b.Paired(NewSample(nil, nil, 10), blocked(r, 10, 10, 0), 0.5)
	if !math.IsNaN(c.Difference) || c.DifferenceInterval != nil || c.RatioInterval != nil {
		t.Errorf("a contrast with nothing: %+v", c)
	}
	// Medians around 0 have a difference, but no ratio.
	values := []float64{-1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1}
	block := []int{0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7}
	s := NewSample(values, block, 8)
	if c := b.Paired(s, s, 0.5); !math.IsNaN(c.Ratio) || c.RatioInterval != nil || c.DifferenceInterval == nil {
		t.Errorf("a ratio to 0: %+v", c)
	}
}
