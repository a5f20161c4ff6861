package report

import (
	"path"

	"github.com/hybrid-pleg/hybrid-pleg/internal/experiment/result"
)

// cost gathers what an arm used up in the workload; nil if that was not measured.
func (c *maker) cost(a result.Arm) *Cost {
	figures := Cost{Attributable: true, Methods: map[string]float64{}}
	var cpu, runtime, calls []float64
	for _, cost := range a.Costs {
		if cost.Phase != c.data.Workload || cost.Window <= 0 {
			continue
		}
		figures.Repeats++
		figures.Seconds += cost.Window
		figures.Attributable = figures.Attributable && cost.Attributable
		figures.PeakRSS = max(figures.PeakRSS, cost.PeakRSS)
		cpu = append(cpu, cost.CPU/cost.Window)
		runtime = append(runtime, cost.RuntimeCPU/cost.Window)
		if cost.RPCs != nil {
			total := uint64(0)
			for method, n := range cost.RPCs {
				total += n
				figures.Methods[path.Base(method)] += float64(n)
			}
			calls = append(calls, float64(total)/cost.Window*60)
		}
	}
	if figures.Repeats == 0 {
		return nil
	}
	figures.CPU, figures.RuntimeCPU = rangeOf(cpu), rangeOf(runtime)
	// A mean of some of the repeats would pass for one of all.
	if len(calls) == figures.Repeats {
		r := rangeOf(calls)
		figures.RPCs = &r
		for method := range figures.Methods {
			figures.Methods[method] *= 60 / figures.Seconds
		}
	} else {
		figures.Methods = nil
	}
	return &figures
}

// rangeOf returns the mean of values and its bounds. There is at least one value.
func rangeOf(values []float64) Range {
	r := Range{Min: values[0], Max: values[0]}
	for _, v := range values {
		r.Mean += v / float64(len(values))
		r.Min, r.Max = min(r.Min, v), max(r.Max, v)
	}
	return r
}

// best returns the latency that answers "how fast" for a kind: from the earliest
// moment that was observed. It is nil where the arm told none.
func (f *Figures) best(kind string) *Latency {
	k := f.kind(kind)
	if k == nil || len(k.Latencies) == 0 || k.Latencies[0].N == 0 {
		return nil
	}
	return &k.Latencies[0]
}

// markDominated marks the arms to which another is nowhere worse and somewhere
// better, in the median of exits, the exits missed, and the cost.
func markDominated(arms []Figures) {
	better := func(x, y *Figures) bool {
		lx, ly, cx, cy := x.best(result.Exit), y.best(result.Exit), x.Cost, y.Cost
		if lx == nil || ly == nil || cx == nil || cy == nil {
			return false
		}
		mx, my := x.kind(result.Exit).MissedShare, y.kind(result.Exit).MissedShare
		if lx.P50.Value > ly.P50.Value || mx > my || cx.Total() > cy.Total() {
			return false
		}
		return lx.P50.Value < ly.P50.Value || mx < my || cx.Total() < cy.Total()
	}
	for i := range arms {
		for j := range arms {
			if better(&arms[j], &arms[i]) {
				arms[i].Dominated = true
			}
		}
	}
}
