package stats

import "math"

// z returns the standard normal quantile that leaves (1-level)/2 at each end.
func z(level float64) float64 { return math.Sqrt2 * math.Erfinv(level) }

// Wilson returns Wilson's score interval for the share of which k of n were seen. It
// takes the n for independent. Of nothing nothing is known: 0 to 1.
func Wilson(k, n int, level float64) Interval {
	if n == 0 {
		return Interval{0, 1}
	}
	p, m, z := float64(k)/float64(n), float64(n), z(level)
	centre := p + z*z/(2*m)
	half := z * math.Sqrt(p*(1-p)/m+z*z/(4*m*m))
	scale := 1 + z*z/m
	i := Interval{max(0, (centre-half)/scale), min(1, (centre+half)/scale)}
	// Exactly, where rounding would leave some 1e-18.
	if k == 0 {
		i.Low = 0
	}
	if k == n {
		i.High = 1
	}
	return i
}

// ShareDifference returns Newcombe's hybrid score interval (his method 10) for
// the share k1 of n1 less the share k2 of n2, from two independent Wilson intervals.
func ShareDifference(k1, n1, k2, n2 int, level float64) Interval {
	if n1 == 0 || n2 == 0 {
		return Interval{-1, 1}
	}
	p1, p2 := float64(k1)/float64(n1), float64(k2)/float64(n2)
	a, b := Wilson(k1, n1, level), Wilson(k2, n2, level)
	return Interval{
		p1 - p2 - math.Hypot(p1-a.Low, b.High-p2),
		p1 - p2 + math.Hypot(a.High-p1, p2-b.Low),
	}
}
