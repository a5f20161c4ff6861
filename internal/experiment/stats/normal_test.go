package stats

import (
	"math/rand/v2"
	"testing"
)

func TestUnpairedNormalCoverage(t *testing.T) {
	r := rand.New(rand.NewPCG(12, 12))
	const trials = 120
	at95, at999 := 0, 0
	for i := range trials {
		x, y := blocked(r, 40, 10, 2), blocked(r, 40, 10, 0)
		b := Bootstrap{Resamples: 200, Level: 0.95, Seed: uint64(i)}
		if _, interval := b.UnpairedNormal(x, y, 0.5); interval.Contains(2) {
			at95++
		}
		b.Level = 0.999
		if _, interval := b.UnpairedNormal(x, y, 0.5); interval.Contains(2) {
			at999++
		}
	}
	if share := float64(at95) / trials; share < 0.9 || share > 0.99 {
		t.Errorf("coverage %.3f, want about 0.95", share)
	}
	if at999 < trials-3 {
		t.Errorf("at 99.9 %%, %d of %d hold the truth", at999, trials)
	}
	if _, interval := (Bootstrap{Resamples: 10, Level: 0.95}).UnpairedNormal(blocked(r, 3, 5, 0), blocked(r, 20, 5, 0), 0.5); interval != nil {
		t.Errorf("3 blocks gave %v", *interval)
	}
}
