package stats

import (
	"math"
	"slices"
)

// Quantile returns the q-quantile of values in ascending order: the value at
// position (n-1)q, linear between neighbours. It is NaN of nothing.
func Quantile(sorted []float64, q float64) float64 {
	n := len(sorted)
	if n == 0 {
		return math.NaN()
	}
	lower, fraction := position(n, q)
	if fraction == 0 {
		return sorted[lower]
	}
	return between(sorted[lower], sorted[lower+1], fraction)
}

// position returns the order statistic at or below quantile q of n values, counted
// from 0, and the fraction of the way to the next.
func position(n int, q float64) (lower int, fraction float64) {
	h := float64(n-1) * min(max(q, 0), 1)
	lower = int(h)
	// The product is off by some ulps, which must not make a median of an odd number of
	// values lie beside the middle one.
	fraction = h - float64(lower)
	const tiny = 1e-9
	switch {
	case fraction < tiny:
		fraction = 0
	case fraction > 1-tiny:
		lower, fraction = lower+1, 0
	}
	return lower, fraction
}

func between(a, b, fraction float64) float64 { return a + (b-a)*fraction }

// Mean returns the arithmetic mean, NaN of nothing.
func Mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

// Sample is a set of values, each of which belongs to a block of values that are
// not independent of each other.
type Sample struct {
	values []float64 // ascending
	block  []int
	blocks int
}

// NewSample makes a sample of values, where values[i] belongs to block[i], counted
// from 0 to blocks-1. Samples that are to be resampled together share their blocks;
// a block may hold no value of one of them.
func NewSample(values []float64, block []int, blocks int) Sample {
	order := make([]int, len(values))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case values[a] < values[b]:
			return -1
		case values[a] > values[b]:
			return 1
		default:
			return 0
		}
	})
	s := Sample{values: make([]float64, len(values)), block: make([]int, len(values)), blocks: blocks}
	for i, at := range order {
		s.values[i], s.block[i] = values[at], block[at]
	}
	return s
}

// Len returns the number of values.
func (s Sample) Len() int { return len(s.values) }

// Sorted returns the values in ascending order, to be read only.
func (s Sample) Sorted() []float64 { return s.values }

// Blocks returns how many blocks hold a value.
func (s Sample) Blocks() int {
	seen := make([]bool, s.blocks)
	n := 0
	for _, b := range s.block {
		if !seen[b] {
			seen[b] = true
			n++
		}
	}
	return n
}

// Quantile returns the q-quantile of the sample.
func (s Sample) Quantile(q float64) float64 { return Quantile(s.values, q) }

// weighted puts into out the quantiles of the sample in which each value is repeated
// as often as its block's weight says. The quantiles wanted must ascend. It reports
// whether there is a value at all.
//
// One walk over the sorted values serves all quantiles: a resample costs no sort.
func (s Sample) weighted(weights []int, quantiles, out []float64) bool {
	n := 0
	for _, b := range s.block {
		n += weights[b]
	}
	if n == 0 {
		return false
	}
	seen, next := 0, 0
	want, fraction := position(n, quantiles[0])
	for i, b := range s.block {
		seen += weights[b]
		for seen > want {
			v := s.values[i]
			if fraction > 0 {
				upper := i
				// The next order statistic is this value again, or that of the next
				// block that was drawn.
				if seen == want+1 {
					for upper++; weights[s.block[upper]] == 0; upper++ {
					}
				}
				v = between(v, s.values[upper], fraction)
			}
			out[next] = v
			if next++; next == len(quantiles) {
				return true
			}
			want, fraction = position(n, quantiles[next])
		}
	}
	return true
}
