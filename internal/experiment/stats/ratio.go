package stats

import (
	"math"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// MinRepeats is the number of repeats of each side below which [MeanRatio] gives no
// interval.
const MinRepeats = 3

// MeanRatio returns the geometric mean of x over that of y, and Student's interval for
// it: one value a repeat, repeats independent, and the same relative spread on both
// sides, which is what makes three repeats enough to say something. The interval is nil
// where a side has fewer than [MinRepeats] values; where a value is not positive, the ratio
// is NaN as well.
func MeanRatio(x, y []float64, level float64) (ratio float64, interval *Interval) {
	logs := func(values []float64) (mean, sum float64) {
		l := make([]float64, len(values))
		for i, v := range values {
			if v <= 0 {
				return math.NaN(), math.NaN()
			}
			l[i] = math.Log(v)
		}
		mean, variance := stat.MeanVariance(l, nil)
		return mean, variance * float64(len(l)-1)
	}
	mx, sx := logs(x)
	my, sy := logs(y)
	ratio = math.Exp(mx - my)
	if len(x) < MinRepeats || len(y) < MinRepeats || math.IsNaN(ratio) {
		return ratio, nil
	}
	freedom := float64(len(x) + len(y) - 2)
	t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: freedom}.Quantile((1 + level) / 2)
	half := t * math.Sqrt((sx+sy)/freedom*(1/float64(len(x))+1/float64(len(y))))
	return ratio, &Interval{ratio * math.Exp(-half), ratio * math.Exp(half)}
}
