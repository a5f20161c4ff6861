package stats

import (
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat"
)

// Interval is a confidence interval, ends included.
type Interval struct {
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// Contains tells whether v lies in the interval.
func (i Interval) Contains(v float64) bool { return i.Low <= v && v <= i.High }

// Bootstrap says how intervals are made.
type Bootstrap struct {
	// Resamples is how many samples are drawn.
	Resamples int
	// Level is the share of intervals that hold the true value, such as 0.95.
	Level float64
	// Seed makes the drawing repeatable.
	Seed uint64
}

// A quantile needs some values beyond it, or its interval would end at the largest value
// seen, whatever the truth is.
const minBeyond = 3

func enough(n int, q float64) bool {
	return float64(n)*min(q, 1-q) >= minBeyond
}

// Quantiles returns an interval for each of the quantiles, which must ascend. One is
// nil where the sample has fewer than [MinBlocks] blocks or fewer than three values
// beyond the quantile.
func (b Bootstrap) Quantiles(s Sample, quantiles []float64) []*Interval {
	result := make([]*Interval, len(quantiles))
	if s.Blocks() < MinBlocks {
		return result
	}
	drawn := make([][]float64, len(quantiles))
	out := make([]float64, len(quantiles))
	b.resample(1, s.blocks, func(weights []int) {
		if s.weighted(weights, quantiles, out) {
			for i, v := range out {
				drawn[i] = append(drawn[i], v)
			}
		}
	})
	for i := range quantiles {
		if enough(s.Len(), quantiles[i]) {
			result[i] = b.interval(drawn[i])
		}
	}
	return result
}

// Contrast is how the quantile of one sample stands to that of another.
type Contrast struct {
	// Difference is a's quantile less b's, Ratio a's over b's. Ratio is NaN where b's is
	// not positive.
	Difference, Ratio                 float64
	DifferenceInterval, RatioInterval *Interval
}

// Paired contrasts quantile q of two samples of the same transitions: both are made
// with the same blocks, and each resample draws the same blocks of both.
func (b Bootstrap) Paired(x, y Sample, q float64) Contrast {
	return b.contrast(x, y, q, func(use func(wx, wy []int)) {
		b.resample(1, x.blocks, func(weights []int) { use(weights, weights) })
	})
}

// Unpaired contrasts quantile q of two samples that have nothing in common.
func (b Bootstrap) Unpaired(x, y Sample, q float64) Contrast {
	return b.contrast(x, y, q, func(use func(wx, wy []int)) {
		ry := b.source(2)
		wy := make([]int, y.blocks)
		b.resample(1, x.blocks, func(wx []int) {
			draw(ry, wy)
			use(wx, wy)
		})
	})
}

func (b Bootstrap) contrast(x, y Sample, q float64, each func(use func(wx, wy []int))) Contrast {
	c := Contrast{Difference: math.NaN(), Ratio: math.NaN()}
	if x.Len() == 0 || y.Len() == 0 {
		return c
	}
	c.Difference = x.Quantile(q) - y.Quantile(q)
	c.Ratio = ratio(x.Quantile(q), y.Quantile(q))
	if min(x.Blocks(), y.Blocks()) < MinBlocks || !enough(min(x.Len(), y.Len()), q) {
		return c
	}
	quantiles := []float64{q}
	var vx, vy [1]float64
	var differences, ratios []float64
	each(func(wx, wy []int) {
		if !x.weighted(wx, quantiles, vx[:]) || !y.weighted(wy, quantiles, vy[:]) {
			return
		}
		differences = append(differences, vx[0]-vy[0])
		if r := ratio(vx[0], vy[0]); !math.IsNaN(r) {
			ratios = append(ratios, r)
		}
	})
	c.DifferenceInterval = b.interval(differences)
	if len(ratios) == len(differences) {
		c.RatioInterval = b.interval(ratios)
	}
	return c
}

func ratio(x, y float64) float64 {
	if y <= 0 {
		return math.NaN()
	}
	return x / y
}

func (b Bootstrap) source(stream uint64) *rand.Rand {
	return rand.New(rand.NewPCG(b.Seed, stream))
}

// resample calls use once a resample with how often each block was drawn. The
// weights are valid during the call only.
func (b Bootstrap) resample(stream uint64, blocks int, use func(weights []int)) {
	r := b.source(stream)
	weights := make([]int, blocks)
	for range b.Resamples {
		draw(r, weights)
		use(weights)
	}
}

func draw(r *rand.Rand, weights []int) {
	clear(weights)
	for range weights {
		weights[r.IntN(len(weights))]++
	}
}

// interval returns the percentile interval of the drawn values, which it sorts.
func (b Bootstrap) interval(drawn []float64) *Interval {
	if len(drawn) == 0 {
		return nil
	}
	slices.Sort(drawn)
	tail := (1 - b.Level) / 2
	return &Interval{Quantile(drawn, tail), Quantile(drawn, 1-tail)}
}

// UnpairedNormal returns the difference of quantile q of two samples that have nothing
// in common, and its interval from the bootstrap's standard error and the normal
// distribution. At levels near 1, as many comparisons at once need, the percentiles of some
// thousand resamples say nothing, and this still does. The interval is nil where
// [Bootstrap.Unpaired] would give none.
func (b Bootstrap) UnpairedNormal(x, y Sample, q float64) (difference float64, interval *Interval) {
	if x.Len() == 0 || y.Len() == 0 {
		return math.NaN(), nil
	}
	difference = x.Quantile(q) - y.Quantile(q)
	if min(x.Blocks(), y.Blocks()) < MinBlocks || !enough(min(x.Len(), y.Len()), q) {
		return difference, nil
	}
	half := z(b.Level) * math.Hypot(b.standardError(x, q, 1), b.standardError(y, q, 2))
	return difference, &Interval{difference - half, difference + half}
}

func (b Bootstrap) standardError(s Sample, q float64, stream uint64) float64 {
	quantiles := []float64{q}
	var out [1]float64
	var drawn []float64
	b.resample(stream, s.blocks, func(weights []int) {
		if s.weighted(weights, quantiles, out[:]) {
			drawn = append(drawn, out[0])
		}
	})
	_, variance := stat.MeanVariance(drawn, nil)
	return math.Sqrt(variance)
}
