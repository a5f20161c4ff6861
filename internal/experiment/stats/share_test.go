package stats

import (
	"math"
	"math/rand/v2"
	"testing"
)

func near(a, b, tolerance float64) bool { return math.Abs(a-b) <= tolerance }

func TestWilson(t *testing.T) {
	for _, c := range []struct {
		k, n      int
		low, high float64
	}{
		// Newcombe (1998), Interval estimation for the single proportion, table I, method 3.
		{81, 263, 0.2553, 0.3662},
		{15, 148, 0.0624, 0.1605},
		{0, 20, 0, 0.1611},
		{1, 29, 0.0061, 0.1718},
		{0, 0, 0, 1},
		{20, 20, 1 - 0.1611, 1},
	} {
		got := Wilson(c.k, c.n, 0.95)
		if !near(got.Low, c.low, 5e-5) || !near(got.High, c.high, 5e-5) {
			t.Errorf("Wilson(%d, %d) = %.4f to %.4f, want %.4f to %.4f", c.k, c.n, got.Low, got.High, c.low, c.high)
		}
	}
}

func TestShareDifference(t *testing.T) {
	// Newcombe (1998), Interval estimation for the difference, table II, method 10.
	for _, c := range []struct {
		k1, n1, k2, n2 int
		low, high      float64
	}{
		{56, 70, 48, 80, 0.0524, 0.3339},
		{9, 10, 3, 10, 0.1705, 0.8090},
		{10, 10, 0, 20, 0.6791, 1},
		{0, 0, 1, 2, -1, 1},
	} {
		got := ShareDifference(c.k1, c.n1, c.k2, c.n2, 0.95)
		if !near(got.Low, c.low, 5e-5) || !near(got.High, c.high, 5e-5) {
			t.Errorf("%d/%d less %d/%d: %.4f to %.4f, want %.4f to %.4f",
				c.k1, c.n1, c.k2, c.n2, got.Low, got.High, c.low, c.high)
		}
	}
}

func TestMeanRatio(t *testing.T) {
	// Logarithms 0, 1, 2 and 1, 2, 3: the pooled variance is 1, on 4 degrees of freedom,
	// for which Student's table has 2.776.
	e := math.Exp
	ratio, interval := MeanRatio([]float64{1, e(1), e(2)}, []float64{e(1), e(2), e(3)}, 0.95)
	half := 2.7764 * math.Sqrt(2./3)
	if !near(ratio, e(-1), 1e-12) || interval == nil || !near(interval.Low, e(-1-half), 1e-4) || !near(interval.High, e(-1+half), 1e-3) {
		t.Errorf("ratio %v, interval %v, want %v and %v to %v", ratio, interval, e(-1), e(-1-half), e(-1+half))
	}
	if ratio, interval := MeanRatio([]float64{1, 2}, []float64{1, 2, 3}, 0.95); interval != nil || math.IsNaN(ratio) {
		t.Errorf("of two repeats: %v, %v", ratio, interval)
	}
	if ratio, interval := MeanRatio([]float64{0, 1, 2}, []float64{1, 2, 3}, 0.95); interval != nil || !math.IsNaN(ratio) {
		t.Errorf("of a zero: %v, %v", ratio, interval)
	}
	if _, interval := MeanRatio([]float64{2, 2, 2}, []float64{1, 1, 1}, 0.95); interval == nil || !near(interval.Low, 2, 1e-12) || !near(interval.High, 2, 1e-12) {
		t.Errorf("without spread: %v", interval)
	}
}

func TestMeanRatioCoverage(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 13))
	const trials = 4000
	hits := 0
	for range trials {
		sample := func(mean float64) []float64 {
			return []float64{mean * math.Exp(0.1*r.NormFloat64()), mean * math.Exp(0.1*r.NormFloat64()), mean * math.Exp(0.1*r.NormFloat64())}
		}
		if _, interval := MeanRatio(sample(3), sample(2), 0.95); interval.Contains(1.5) {
			hits++
		}
	}
	if share := float64(hits) / trials; share < 0.935 || share > 0.965 {
		t.Errorf("coverage %.3f, want 0.95", share)
	}
}

// Of 95 % intervals, about 95 % hold the truth.
func TestWilsonCoverage(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	const trials, n, p = 4000, 200, 0.1
	hits := 0
	for range trials {
		k := 0
		for range n {
			if r.Float64() < p {
				k++
			}
		}
		if Wilson(k, n, 0.95).Contains(p) {
			hits++
		}
	}
	if share := float64(hits) / trials; share < 0.93 || share > 0.975 {
		t.Errorf("coverage %.3f, want about 0.95", share)
	}
}
