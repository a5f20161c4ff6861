package stats

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestQuantile(t *testing.T) {
	// R: quantile(c(1,2,3,4,10), c(…), type = 7).
	five := []float64{1, 2, 3, 4, 10}
	for _, c := range []struct {
		values  []float64
		q, want float64
	}{
		{five, 0, 1}, {five, 0.25, 2}, {five, 0.5, 3}, {five, 0.9, 7.6}, {five, 0.99, 9.76}, {five, 1, 10},
		{[]float64{1, 2, 3, 4}, 0.5, 2.5},
		{[]float64{7}, 0.99, 7},
		{nil, 0.5, math.NaN()},
	} {
		got := Quantile(c.values, c.q)
		if math.Abs(got-c.want) > 1e-9 || math.IsNaN(got) != math.IsNaN(c.want) {
			t.Errorf("Quantile(%v, %v) = %v, want %v", c.values, c.q, got, c.want)
		}
	}
}

// A weighted quantile is the quantile of the sample with each value repeated.
func TestWeightedIsRepetition(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	quantiles := []float64{0, 0.1, 0.5, 0.9, 0.99, 1}
	for range 500 {
		n, blocks := 1+r.IntN(40), 1+r.IntN(10)
		values, block := make([]float64, n), make([]int, n)
		for i := range values {
			values[i], block[i] = float64(r.IntN(12)), r.IntN(blocks)
		}
		weights := make([]int, blocks)
		draw(r, weights)
		var repeated []float64
		for i, v := range values {
			for range weights[block[i]] {
				repeated = append(repeated, v)
			}
		}
		slices.Sort(repeated)
		out := make([]float64, len(quantiles))
		ok := NewSample(values, block, blocks).weighted(weights, quantiles, out)
		if ok != (len(repeated) > 0) {
			t.Fatalf("weighted says %v of %d values", ok, len(repeated))
		}
		if !ok {
			continue
		}
		for i, q := range quantiles {
			if want := Quantile(repeated, q); math.Abs(out[i]-want) > 1e-9 {
				t.Fatalf("quantile %v with weights %v of blocks %v: %v, want %v", q, weights, block, out[i], want)
			}
		}
	}
}

func TestBlocks(t *testing.T) {
	at := []int64{0, 5, 12, 19, 23, 100, 131, 160}
	repeat := []int{1, 1, 1, 1, 1, 2, 2, 2}
	block, n := Blocks(at, repeat, 10)
	// 23 is the rest of its repeat, shorter than half a block, and the second
	// repeat has a block of its own without a moment.
	if want := []int{0, 0, 1, 1, 1, 2, 5, 7}; n != 8 || !slices.Equal(block, want) {
		t.Errorf("Blocks: %v of %d, want %v of 8", block, n, want)
	}
	if got := NewSample(make([]float64, len(at)), block, n).Blocks(); got != 5 {
		t.Errorf("%d blocks hold values, want 5", got)
	}
	if block, n := Blocks(nil, nil, 10); len(block) != 0 || n != 0 {
		t.Errorf("Blocks of nothing: %v of %d", block, n)
	}
}

func TestBlockLength(t *testing.T) {
	for _, c := range []struct{ span, correlation, want int64 }{
		{400, 3, 10}, {400, 60, 60}, {0, 0, 1},
	} {
		if got := BlockLength(c.span, c.correlation); got != c.want {
			t.Errorf("BlockLength(%d, %d) = %d, want %d", c.span, c.correlation, got, c.want)
		}
	}
}
