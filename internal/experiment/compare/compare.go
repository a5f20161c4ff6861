package compare

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/internal/experiment/report"
	"github.com/hybrid-pleg/hybrid-pleg/internal/experiment/result"
	"github.com/hybrid-pleg/hybrid-pleg/internal/experiment/stats"
)

// ErrIncomparable says that two experiments have too little in common.
var ErrIncomparable = errors.New("the experiments can't be compared")

// Options say what counts as a difference. The zero value works.
type Options struct {
	// MinChange is the least share of the first run's figure that a difference must
	// have to be called one, such as [DefaultMinChange]; 0: any.
	MinChange float64
	// Resamples of each bootstrap; 0: 2000.
	Resamples int
}

// DefaultMinChange is a fit choice of [Options.MinChange].
const DefaultMinChange = 0.05

const familyLevel = 0.95

// Comparison is two experiments side by side.
type Comparison struct {
	A Side `json:"a"`
	B Side `json:"b"`
	// Warnings say what else differs than what was meant to.
	Warnings []string `json:"warnings"`
	// Level is that of each interval, Comparisons the number of differences it was
	// corrected for.
	Level       float64 `json:"level"`
	Comparisons int     `json:"comparisons"`
	MinChange   float64 `json:"minChange"`
	Rows        []Row   `json:"rows"`
}

// Side names one of the experiments.
type Side struct {
	Name    string    `json:"name"`
	Began   time.Time `json:"began"`
	Version string    `json:"version"`
	Runtime string    `json:"runtime"`
}

// Verdict is what a difference amounts to.
type Verdict string

// The verdicts.
const (
	// Higher and Lower: the second run's figure differs beyond noise.
	Higher Verdict = "higher"
	Lower  Verdict = "lower"
	// Noise: the interval of the difference holds 0.
	Noise Verdict = "noise"
	// Small: it does not, but the difference is too small to matter.
	Small Verdict = "small"
	// Unknown: the data are too few for an interval.
	Unknown Verdict = "unknown"
)

// Unit is what a metric is measured in.
type Unit string

// The units.
const (
	Seconds      Unit = "seconds"
	ShareOf      Unit = "share"
	CallsAMinute Unit = "callsPerMinute"
	Bytes        Unit = "bytes"
)

// Row is one metric of one arm in one workload.
type Row struct {
	Workload string  `json:"workload"`
	Arm      string  `json:"arm"`
	Metric   string  `json:"metric"`
	Unit     Unit    `json:"unit"`
	A        float64 `json:"a"`
	B        float64 `json:"b"`
	// Difference is B less A.
	Difference float64         `json:"difference"`
	Interval   *stats.Interval `json:"interval,omitempty"`
	// Relative is Difference over A; absent where A is 0.
	Relative *float64 `json:"relative,omitempty"`
	Verdict  Verdict  `json:"verdict"`
}

// metric computes a row once the level of the intervals is known.
type metric struct {
	row     Row
	compute func(level float64) (a, b, difference float64, interval *stats.Interval)
}

// Compare sets b beside a. It fails with [ErrIncomparable] where nothing could be
// learned from that.
func Compare(a, b result.Experiment, o Options) (*Comparison, error) {
	if o.Resamples == 0 {
		o.Resamples = 2000
	}
	c := &Comparison{A: sideOf(a), B: sideOf(b), MinChange: o.MinChange, Level: familyLevel}
	arms, err := c.comparable(a, b)
	if err != nil {
		return nil, err
	}
	var metrics []metric
	second := report.Split(b)
	for _, x := range report.Split(a) {
		i := slices.IndexFunc(second, func(d *report.Data) bool { return d.Workload == x.Workload })
		if i < 0 {
			c.warn("workload %q is in the first run only", x.Workload)
			continue
		}
		y := second[i]
		second = slices.Delete(second, i, i+1)
		for _, arm := range arms {
			metrics = append(metrics, metricsOf(x, y, arm, o, a.Run.Seed)...)
		}
	}
	for _, y := range second {
		c.warn("workload %q is in the second run only", y.Workload)
	}
	if len(metrics) == 0 {
		return nil, fmt.Errorf("%w: no workload in which the same arm was measured is in both", ErrIncomparable)
	}
	c.Comparisons = len(metrics)
	c.Level = 1 - (1-familyLevel)/float64(len(metrics))
	for _, m := range metrics {
		r := m.row
		r.A, r.B, r.Difference, r.Interval = m.compute(c.Level)
		if r.A != 0 {
			relative := r.Difference / r.A
			r.Relative = &relative
		}
		r.Verdict = verdict(r, o.MinChange)
		c.Rows = append(c.Rows, r)
	}
	return c, nil
}

func verdict(r Row, minChange float64) Verdict {
	switch {
	case r.Interval == nil:
		return Unknown
	case r.Interval.Contains(0):
		return Noise
	case r.Relative != nil && math.Abs(*r.Relative) < minChange:
		return Small
	case r.Difference > 0:
		return Higher
	default:
		return Lower
	}
}

func sideOf(e result.Experiment) Side {
	return Side{Name: e.Run.Name, Began: e.Run.Began, Version: e.Run.Version, Runtime: runtimeOf(e.Run)}
}

func runtimeOf(r result.Run) string { return r.Runtime.Name + " " + r.Runtime.Version }

func (c *Comparison) warn(format string, a ...any) {
	c.Warnings = append(c.Warnings, fmt.Sprintf(format, a...))
}

// comparable returns the arms that both experiments have, and warns of what else
// differs.
func (c *Comparison) comparable(a, b result.Experiment) ([][2]result.Arm, error) {
	x, y := a.Run, b.Run
	if (x.Truth.Kernel == result.FromEmbedded) != (y.Truth.Kernel == result.FromEmbedded) {
		return nil, fmt.Errorf("%w: one ran on the embedded runtime, whose times are made up, and the other on a real one (%s and %s)",
			ErrIncomparable, runtimeOf(x), runtimeOf(y))
	}
	var arms [][2]result.Arm
	for _, first := range x.Arms {
		i := slices.IndexFunc(y.Arms, func(second result.Arm) bool { return second.Name == first.Name })
		if i < 0 {
			c.warn("arm %q is in the first run only", first.Name)
			continue
		}
		if second := y.Arms[i]; !same(first, second) {
			c.warn("arm %q is left out: it is not the same in both runs (%s, and %s)", first.Name, settings(first), settings(second))
			continue
		}
		arms = append(arms, [2]result.Arm{first, y.Arms[i]})
	}
	for _, second := range y.Arms {
		if !slices.ContainsFunc(x.Arms, func(first result.Arm) bool { return first.Name == second.Name }) {
			c.warn("arm %q is in the second run only", second.Name)
		}
	}
	if len(arms) == 0 {
		return nil, fmt.Errorf("%w: no arm of the same name, kind, triggers and periods is in both", ErrIncomparable)
	}
	for _, d := range []struct {
		what string
		a, b any
	}{
		{"runtime", runtimeOf(x), runtimeOf(y)},
		{"state lag of the runtime", x.Runtime.StateLag, y.Runtime.StateLag},
		{"kernel", x.Host.Kernel, y.Host.Kernel},
		{"processor", x.Host.CPU, y.Host.CPU},
		{"number of processors", x.Host.CPUs, y.Host.CPUs},
		{"cgroup version", x.Host.Cgroup, y.Host.Cgroup},
		{"source of kernel times", x.Truth.Kernel, y.Truth.Kernel},
		{"number of arms, which slow each other", len(x.Arms), len(y.Arms)},
	} {
		if d.a != d.b {
			c.warn("the %s differs: %v, and %v", d.what, quoted(d.a), quoted(d.b))
		}
	}
	if x.Sequential != y.Sequential {
		c.warn("in one run the arms ran one after another, in the other side by side: that alone changes latencies and costs")
	}
	if a.Plan != b.Plan {
		c.warn("the plans differ: look at both before you blame what was changed")
	}
	for i, r := range []result.Run{x, y} {
		if r.Interrupted {
			c.warn("the %s run was interrupted", []string{"first", "second"}[i])
		}
	}
	return arms, nil
}

func quoted(v any) any {
	if s, ok := v.(string); ok && s == "" {
		return "none"
	}
	return v
}

func same(a, b result.Arm) bool {
	return a.Kind == b.Kind && slices.Equal(a.Triggers, b.Triggers) && a.Period == b.Period && a.PeriodDegraded == b.PeriodDegraded
}

func settings(a result.Arm) string {
	return fmt.Sprintf("%s, triggers %v, periods %s and %s", a.Kind, a.Triggers, a.Period, a.PeriodDegraded)
}
