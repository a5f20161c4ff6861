package report

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/hybrid-pleg/hybrid-pleg/internal/experiment/result"
	"github.com/hybrid-pleg/hybrid-pleg/internal/experiment/stats"
)

// Options say how figures are made. The zero value works.
type Options struct {
	// Reference is the arm that the others are compared with; empty: the first.
	Reference string
	// Resamples of each bootstrap; 0: 1000.
	Resamples int
}

// ErrReference says that the arm that the others should be compared with is not there.
var ErrReference = errors.New("the reference is no arm of this experiment")

const (
	level            = 0.95
	defaultResamples = 1000
)

// NewSummary computes the figures of an experiment. Its only error is [ErrReference].
func NewSummary(e result.Experiment, o Options) (*Summary, error) {
	if o.Reference == "" {
		o.Reference = e.Run.Arms[0].Name
	}
	if o.Resamples == 0 {
		o.Resamples = defaultResamples
	}
	s := &Summary{
		Format: SummaryFormat, Run: e.Run, Plan: e.Plan,
		Method: Method{Level: level, Resamples: o.Resamples, Seed: e.Run.Seed, Reference: o.Reference},
	}
	for i, a := range e.Run.Arms {
		s.Arms = append(s.Arms, Arm{Name: a.Name, Key: key(i), Kind: a.Kind, Text: describe(a), Failed: a.Failed})
	}
	reference := slices.IndexFunc(e.Run.Arms, func(a result.Arm) bool { return a.Name == o.Reference })
	if reference < 0 {
		names := make([]string, len(e.Run.Arms))
		for i, a := range e.Run.Arms {
			names[i] = a.Name
		}
		return nil, fmt.Errorf("%w: %q, there are %s", ErrReference, o.Reference, strings.Join(names, ", "))
	}
	for _, d := range Split(e) {
		c := maker{
			data: d, run: &e.Run, reference: e.Run.Arms[reference],
			bootstrap: stats.Bootstrap{Resamples: o.Resamples, Level: level, Seed: e.Run.Seed},
		}
		s.Workloads = append(s.Workloads, c.workload(s.Arms))
	}
	s.Limits = limits(s)
	return s, nil
}

// key returns the letter of arm i, counted from 0: A to Z, then AA and so on.
func key(i int) string {
	name := ""
	for i++; i > 0; i = (i - 1) / 26 {
		name = string(rune('A'+(i-1)%26)) + name
	}
	return name
}

// maker holds what the figures of one workload start from.
type maker struct {
	data      *Data
	run       *result.Run
	reference result.Arm
	bootstrap stats.Bootstrap
}

func (c *maker) workload(arms []Arm) Workload {
	w := Workload{Name: c.data.Workload}
	repeats := map[int]bool{}
	for _, p := range c.data.Phases {
		repeats[p.Repeat] = true
		w.Seconds += seconds64(p.Ended - p.Began)
		w.Background = max(w.Background, p.Background)
		w.Planned += p.Planned
		w.Started += p.Started
		w.FailedStarts += p.FailedStarts
	}
	w.Repeats = len(repeats)
	startEdges, exitEdges := lifeEdges(c.data, result.Start), lifeEdges(c.data, result.Exit)
	for i, a := range c.run.Arms {
		if !c.ran(a) {
			continue
		}
		f := Figures{Arm: a.Name, Key: arms[i].Key, Cost: c.cost(a)}
		for _, e := range a.False {
			if e.Phase == w.Name {
				f.FalseEvents++
			}
		}
		theory := c.theory(a)
		f.Theory = theory.figures(c.data)
		for _, kind := range []string{result.Start, result.Exit, result.Removed} {
			if k := c.kind(a, kind, theory); k.Of > 0 {
				switch kind {
				case result.Start:
					k.ByLife = byLife(c.data, a, kind, startEdges, theory)
				case result.Exit:
					k.ByLife = byLife(c.data, a, kind, exitEdges, theory)
				}
				f.Kinds = append(f.Kinds, k)
			}
		}
		w.Arms = append(w.Arms, f)
	}
	markDominated(w.Arms)
	w.Timeline = c.timeline(arms)
	w.Answers = answers(&w, c.run)
	return w
}

// ran tells whether an arm has anything to show for this workload.
func (c *maker) ran(a result.Arm) bool {
	return slices.ContainsFunc(c.data.Phases, func(p result.Phase) bool { return p.Arm == "" || p.Arm == a.Name })
}

func (c *maker) kind(a result.Arm, kind string, theory *theory) Kind {
	k := Kind{Kind: kind}
	k.Missed, k.Of = c.data.Missed(a.Name, kind)
	if k.Of == 0 {
		return k
	}
	k.MissedShare = float64(k.Missed) / float64(k.Of)
	k.MissedInterval = stats.Wilson(k.Missed, k.Of, level)
	var observed [3]int
	sources := []string{FromKernel, FromVisible, FromAsked}
	for i := range c.data.Transitions {
		t := &c.data.Transitions[i]
		if t.Kind != kind || !slices.Contains(t.Arms, a.Name) {
			continue
		}
		told, ok := t.Told[a.Name]
		if ok && told.Inferred {
			k.Inferred++
		}
		if ok && told.Times > 1 {
			k.Duplicates++
		}
		if premature(t, a.Name) {
			k.Premature++
			continue
		}
		for i, from := range sources {
			if from == FromKernel && ok && told.At < t.Kernel {
				continue
			}
			if moment(t, from) != 0 {
				observed[i]++
			}
		}
	}
	for i, from := range sources {
		// What was asked for matters where nothing better is known of the moment.
		if observed[i] == 0 || from == FromAsked && len(k.Latencies) > 0 {
			continue
		}
		k.Latencies = append(k.Latencies, c.latency(a, kind, from, observed[i], theory))
	}
	return k
}

func (c *maker) latency(a result.Arm, kind, from string, observed int, theory *theory) Latency {
	sample := c.data.Latencies(a.Name, kind, from, Correlation(a))
	l := Latency{From: from, N: sample.Len(), Observed: observed}
	if l.N == 0 {
		return l
	}
	quantiles := []float64{0.5, 0.9, 0.99}
	intervals := c.bootstrap.Quantiles(sample, quantiles)
	for i, e := range []*Estimate{&l.P50, &l.P90, &l.P99} {
		*e = Estimate{sample.Quantile(quantiles[i]), intervals[i]}
	}
	l.Max = sample.Quantile(1)
	l.Curve = curve(sample.Sorted(), observed)
	l.Theory = theory.curve(c.data, kind, from, l.Curve)
	if a.Name != c.reference.Name && c.ran(c.reference) {
		l.Against = c.against(a, kind, from)
	}
	return l
}

// curvePoints bounds what a curve takes of the page: more can't be told apart.
const curvePoints = 120

// curve returns the share of n that lies at or below a value, at up to curvePoints
// values.
func curve(sorted []float64, n int) []Point {
	points := make([]Point, 0, min(len(sorted), curvePoints))
	step := max(1, float64(len(sorted)-1)/(curvePoints-1))
	for at := 0.0; ; at += step {
		i := int(math.Round(at))
		if i >= len(sorted) {
			break
		}
		points = append(points, Point{sorted[i], float64(i+1) / float64(n)})
	}
	if last := sorted[len(sorted)-1]; points[len(points)-1].X != last {
		points = append(points, Point{last, float64(len(sorted)) / float64(n)})
	}
	return points
}

// against contrasts an arm with the reference: over the same transitions where both
// had the chance to tell the same ones.
func (c *maker) against(a result.Arm, kind, from string) *Against {
	correlation := max(Correlation(a), Correlation(c.reference))
	b := c.data.blocksFor(correlation, a.Name, c.reference.Name)
	r := Against{}
	var differences []float64
	var block []int
	both := func(t *result.Transition) bool {
		return slices.Contains(t.Arms, a.Name) && slices.Contains(t.Arms, c.reference.Name)
	}
	for i := range c.data.Transitions {
		t := &c.data.Transitions[i]
		if t.Kind != kind || !both(t) || moment(t, from) == 0 {
			continue
		}
		r.Paired = true
		mine, ok := latency(t, a.Name, from)
		theirs, okReference := latency(t, c.reference.Name, from)
		switch {
		case ok && okReference:
			differences = append(differences, mine-theirs)
			block = append(block, b.block[i])
		case ok:
			r.OnlyThis++
		case okReference:
			r.OnlyReference++
		}
	}
	var contrast stats.Contrast
	if r.Paired {
		if len(differences) == 0 {
			return nil
		}
		sample := stats.NewSample(differences, block, b.n)
		r.N = sample.Len()
		r.Difference = Estimate{sample.Quantile(0.5), c.bootstrap.Quantiles(sample, []float64{0.5})[0]}
		told := func(t *result.Transition) bool {
			_, mine := latency(t, a.Name, from)
			_, theirs := latency(t, c.reference.Name, from)
			return both(t) && mine && theirs
		}
		contrast = c.bootstrap.Paired(c.data.sample(a.Name, kind, from, b, told),
			c.data.sample(c.reference.Name, kind, from, b, told), 0.5)
	} else {
		x := c.data.Latencies(a.Name, kind, from, Correlation(a))
		y := c.data.Latencies(c.reference.Name, kind, from, Correlation(c.reference))
		if r.N = min(x.Len(), y.Len()); r.N == 0 {
			return nil
		}
		contrast = c.bootstrap.Unpaired(x, y, 0.5)
		r.Difference = Estimate{contrast.Difference, contrast.DifferenceInterval}
	}
	if !math.IsNaN(contrast.Ratio) {
		r.Ratio = &Estimate{contrast.Ratio, contrast.RatioInterval}
	}
	return &r
}
