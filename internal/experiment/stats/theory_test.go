package stats

import (
	"math"
	"math/rand/v2"
	"testing"
)

// The formulas agree with a generator that is played: it lists at every multiple of
// the period, and the container begins anywhere in one.
func TestPeriodicAgainstSimulation(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 9))
	const n = 40000
	for _, c := range []struct {
		name                   string
		period, running, after float64
	}{
		{"short, removed at once", 1, 0.3, 0},
		{"short, kept for a while", 1, 0.3, 0.4},
		{"listed longer than a period", 1, 0.5, 0.8},
		{"long", 1, 5, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			life := Life{Running: c.running, Listed: c.running + c.after}
			var starts, exits []float64
			missed := 0
			for range n {
				start := r.Float64() * c.period
				exit, gone := start+c.running, start+c.running+c.after
				first := c.period // the first listing after the start
				if start == 0 {
					first = 0
				}
				if first < gone {
					starts = append(starts, first-start)
				} else {
					missed++
				}
				next := math.Ceil(exit/c.period) * c.period
				if next < gone || next-c.period >= start {
					exits = append(exits, next-exit)
				}
			}
			p := Periodic{c.period}
			tolerance := 4 * math.Sqrt(0.25/n)
			if got, want := float64(missed)/n, p.Missed(life.Listed); !near(got, want, tolerance) {
				t.Errorf("missed %.4f, theory %.4f", got, want)
			}
			if got, want := 1-float64(len(exits))/n, p.Missed(life.Listed); !near(got, want, tolerance) {
				t.Errorf("exits missed %.4f, theory %.4f", got, want)
			}
			for x := 0.05; x < 1.2; x += 0.05 {
				if got, want := within(starts, x, n), p.StartCDF(x, life.Listed); !near(got, want, tolerance) {
					t.Errorf("starts told within %.2f: %.4f, theory %.4f", x, got, want)
				}
				if got, want := within(exits, x, n), p.ExitCDF(x, life); !near(got, want, tolerance) {
					t.Errorf("exits told within %.2f: %.4f, theory %.4f", x, got, want)
				}
			}
		})
	}
}

func within(values []float64, x float64, of int) float64 {
	n := 0
	for _, v := range values {
		if v <= x {
			n++
		}
	}
	return float64(n) / float64(of)
}

func TestPeriodicEdges(t *testing.T) {
	p := Periodic{2}
	for _, c := range []struct{ got, want float64 }{
		{p.Missed(0), 1}, {p.Missed(0.5), 0.75}, {p.Missed(2), 0}, {p.Missed(9), 0},
		{p.StartCDF(-1, 9), 0}, {p.StartCDF(1, 9), 0.5}, {p.StartCDF(5, 9), 1}, {p.StartCDF(5, 1), 0.5},
		{p.ExitCDF(-1, Life{5, 5}), 0}, {p.ExitCDF(1, Life{5, 5}), 0.5}, {p.ExitCDF(9, Life{1, 1}), 0.5},
	} {
		if c.got != c.want {
			t.Errorf("got %v, want %v", c.got, c.want)
		}
	}
}
