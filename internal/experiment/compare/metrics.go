package compare

import (
	"cmp"
	"math"
	"slices"

	"github.com/hybrid-pleg/hybrid-pleg/internal/experiment/report"
	"github.com/hybrid-pleg/hybrid-pleg/internal/experiment/result"
	"github.com/hybrid-pleg/hybrid-pleg/internal/experiment/stats"
)

// metricsOf returns what can be compared of one arm in one workload: only what both
// runs have.
func metricsOf(x, y *report.Data, arm [2]result.Arm, o Options, seed uint64) []metric {
	row := func(name string, unit Unit) Row {
		return Row{Workload: x.Workload, Arm: arm[0].Name, Metric: name, Unit: unit}
	}
	var all []metric
	for _, kind := range []string{result.Exit, result.Start} {
		for _, from := range []string{report.FromKernel, report.FromVisible, report.FromAsked} {
			correlation := max(report.Correlation(arm[0]), report.Correlation(arm[1]))
			sx := x.Latencies(arm[0].Name, kind, from, correlation)
			sy := y.Latencies(arm[1].Name, kind, from, correlation)
			if sx.Len() == 0 || sy.Len() == 0 {
				continue
			}
			for _, q := range []struct {
				name string
				q    float64
			}{{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}} {
				all = append(all, metric{row(kind+" "+q.name, Seconds), func(level float64) (float64, float64, float64, *stats.Interval) {
					b := stats.Bootstrap{Resamples: o.Resamples, Level: level, Seed: seed}
					difference, interval := b.UnpairedNormal(sy, sx, q.q)
					return sx.Quantile(q.q), sy.Quantile(q.q), difference, interval
				}})
			}
			break // from the best source only: the others tell the same difference
		}
	}
	for _, kind := range []string{result.Exit, result.Start} {
		mx, nx := x.Missed(arm[0].Name, kind)
		my, ny := y.Missed(arm[1].Name, kind)
		if nx == 0 || ny == 0 {
			continue
		}
		all = append(all, metric{row(kind+" missed", ShareOf), func(level float64) (float64, float64, float64, *stats.Interval) {
			interval := stats.ShareDifference(my, ny, mx, nx, level)
			a, b := float64(mx)/float64(nx), float64(my)/float64(ny)
			return a, b, b - a, &interval
		}})
	}
	return append(all, costsOf(x.Workload, arm, row)...)
}

func costsOf(workload string, arm [2]result.Arm, row func(string, Unit) Row) []metric {
	var all []metric
	add := func(name string, unit Unit, value func(result.Cost) float64) {
		a, b := perRepeat(arm[0], workload, value), perRepeat(arm[1], workload, value)
		if len(a) == 0 || len(b) == 0 {
			return
		}
		all = append(all, metric{row(name, unit), func(level float64) (float64, float64, float64, *stats.Interval) {
			before, after := stats.Mean(a), stats.Mean(b)
			_, interval := stats.MeanRatio(b, a, level)
			if interval != nil {
				interval = &stats.Interval{Low: before * (interval.Low - 1), High: before * (interval.High - 1)}
			}
			return before, after, after - before, interval
		}})
	}
	add("generator processor", ShareOf, func(c result.Cost) float64 { return c.CPU / c.Window })
	add("runtime processor", ShareOf, func(c result.Cost) float64 {
		if !c.Attributable {
			return math.NaN()
		}
		return c.RuntimeCPU / c.Window
	})
	add("calls", CallsAMinute, func(c result.Cost) float64 {
		if c.RPCs == nil {
			return math.NaN()
		}
		total := 0.0
		for _, n := range c.RPCs {
			total += float64(n)
		}
		return total / c.Window * 60
	})
	add("peak memory", Bytes, func(c result.Cost) float64 {
		if c.PeakRSS == 0 {
			return math.NaN()
		}
		return float64(c.PeakRSS)
	})
	return all
}

// perRepeat returns a value a repeat, in their order; nil if any is not known.
func perRepeat(a result.Arm, workload string, value func(result.Cost) float64) []float64 {
	costs := slices.DeleteFunc(slices.Clone(a.Costs), func(c result.Cost) bool { return c.Phase != workload || c.Window <= 0 })
	slices.SortStableFunc(costs, func(a, b result.Cost) int { return cmp.Compare(a.Repeat, b.Repeat) })
	var values []float64
	for _, c := range costs {
		v := value(c)
		if math.IsNaN(v) {
			return nil
		}
		values = append(values, v)
	}
	return values
}
