package report

import (
	"encoding/json"
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/internal/experiment/result"
	"github.com/hybrid-pleg/hybrid-pleg/internal/experiment/result/resulttest"
)

func summary(t *testing.T, e result.Experiment) *Summary {
	t.Helper()
	s, err := NewSummary(e, Options{Resamples: 100})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// The figures are those that a reader finds who computes them from the transitions by
// the plainest means.
func TestFiguresEqualThoseComputedDirectly(t *testing.T) {
	spec := resulttest.Many(3, 11)
	spec.Arms[0].Miss, spec.Arms[0].Twice = 0.03, 0.05
	e := resulttest.Make(spec)
	e.Transitions[1].Kernel += int64(time.Hour) // told long before it happened
	e.Run.Arms[2].False = []result.FalseEvent{{Phase: "churn", Kind: result.Exit, Container: "x", At: 1}, {Phase: "other"}}
	s := summary(t, e)
	if len(s.Workloads) != 2 || len(s.Workloads[0].Arms) != 11 {
		t.Fatalf("%d workloads, %d arms", len(s.Workloads), len(s.Workloads[0].Arms))
	}
	for _, w := range s.Workloads {
		for _, f := range w.Arms {
			for _, k := range f.Kinds {
				checkKind(t, e, w.Name, f.Arm, k)
			}
		}
	}
	first := s.Workloads[0]
	if got := first.Arms[0].kind(result.Exit).Premature; got != 1 {
		t.Errorf("%d premature exits, want 1", got)
	}
	if got := first.Arms[2].FalseEvents; got != 1 {
		t.Errorf("%d false events, want 1", got)
	}
	if first.Repeats != 3 || first.Planned != 600 || first.Background != 20 {
		t.Errorf("workload: %d repeats, %d planned, %d in the background", first.Repeats, first.Planned, first.Background)
	}
}

func checkKind(t *testing.T, e result.Experiment, workload, arm string, k Kind) {
	t.Helper()
	of, missed, twice, inferred := 0, 0, 0, 0
	latencies := map[string][]float64{}
	for _, tr := range e.Transitions {
		if tr.Phase != workload || tr.Kind != k.Kind || !slices.Contains(tr.Arms, arm) {
			continue
		}
		of++
		told, ok := tr.Told[arm]
		if !ok {
			missed++
			continue
		}
		if told.Times > 1 {
			twice++
		}
		if told.Inferred {
			inferred++
		}
		if tr.Kernel != 0 && told.At < tr.Kernel {
			continue
		}
		if tr.Kernel != 0 {
			latencies[FromKernel] = append(latencies[FromKernel], float64(told.At-tr.Kernel)/1e9)
		}
		if tr.Visible != 0 {
			latencies[FromVisible] = append(latencies[FromVisible], float64(told.At-tr.Visible)/1e9)
		}
	}
	if k.Of != of || k.Missed != missed || k.Duplicates != twice || k.Inferred != inferred {
		t.Errorf("%s %s %s: of %d missed %d twice %d inferred %d; want %d, %d, %d, %d",
			workload, arm, k.Kind, k.Of, k.Missed, k.Duplicates, k.Inferred, of, missed, twice, inferred)
	}
	for _, l := range k.Latencies {
		want := latencies[l.From]
		slices.Sort(want)
		if l.N != len(want) {
			t.Errorf("%s %s %s from %s: %d latencies, want %d", workload, arm, k.Kind, l.From, l.N, len(want))
			continue
		}
		if l.N == 0 {
			continue
		}
		if l.Max != want[len(want)-1] {
			t.Errorf("%s %s %s: max %v, want %v", workload, arm, k.Kind, l.Max, want[len(want)-1])
		}
		middle := (want[(len(want)-1)/2] + want[len(want)/2]) / 2
		if math.Abs(l.P50.Value-middle) > 1e-12 {
			t.Errorf("%s %s %s: median %v, want %v", workload, arm, k.Kind, l.P50.Value, middle)
		}
		if last := l.Curve[len(l.Curve)-1]; last.X != l.Max || math.Abs(last.Y-float64(l.N)/float64(l.Observed)) > 1e-12 {
			t.Errorf("%s %s %s: the curve ends at %v, want %v and %d/%d", workload, arm, k.Kind, last, l.Max, l.N, l.Observed)
		}
		for _, p := range l.Curve {
			within := 0
			for _, v := range want {
				if v <= p.X {
					within++
				}
			}
			if got := p.Y * float64(l.Observed); math.Abs(got-float64(within)) > 1 {
				t.Fatalf("%s %s %s: curve says %v within %v, want %d", workload, arm, k.Kind, got, p.X, within)
			}
		}
	}
}

// The distributions that the arms were made with are found again.
func TestKnownDistributions(t *testing.T) {
	spec := resulttest.Periods(11)
	spec.Workloads[0].Containers = 1500
	s := summary(t, resulttest.Make(spec))
	w := s.Workloads[0]
	hybrid := w.Arms[0].kind(result.Exit).latency(FromKernel)
	if !hybrid.P50.Interval.Contains(0.026) || !hybrid.P90.Interval.Contains(0.026*math.Exp(0.25*1.2816)) {
		t.Errorf("hybrid: p50 %v %v, p90 %v %v", hybrid.P50.Value, hybrid.P50.Interval, hybrid.P90.Value, hybrid.P90.Interval)
	}
	// The lives are uniform up to 4 s: theory and measurement agree for each period.
	for _, f := range w.Arms[1:] {
		k := f.kind(result.Exit)
		if f.Theory == nil || !f.Theory.Counted && f.Theory.Period < 10 {
			t.Fatalf("%s has no theory, or one whose period was not counted: %+v", f.Arm, f.Theory)
		}
		period := s.Run.Arms[slices.IndexFunc(s.Arms, func(a Arm) bool { return a.Name == f.Arm })].Period.Seconds() + 0.008
		if math.Abs(f.Theory.Period-period) > 0.05*period {
			t.Errorf("%s: period %v, want %v", f.Arm, f.Theory.Period, period)
		}
		// Containers within one period share their fate: the tolerance is that of blocks.
		blocks := w.Seconds / period
		tolerance := 0.01 + 2/math.Sqrt(blocks)*math.Sqrt(k.MissedShare*(1-k.MissedShare))
		if math.Abs(f.Theory.MissedExits-k.MissedShare) > tolerance {
			t.Errorf("%s: missed %.3f, theory %.3f, tolerance %.3f", f.Arm, k.MissedShare, f.Theory.MissedExits, tolerance)
		}
		l := k.latency(FromKernel)
		for _, p := range l.Theory {
			if diff := math.Abs(reads(l.Curve, p.X) - p.Y); diff > 0.04+1/math.Sqrt(blocks) {
				t.Errorf("%s: told within %.3f: %.3f, theory %.3f", f.Arm, p.X, reads(l.Curve, p.X), p.Y)
				break
			}
		}
	}
	if a := w.Arms[3].kind(result.Exit).latency(FromKernel).Against; a == nil || !a.Paired || a.Difference.Interval == nil ||
		a.Difference.Interval.Low <= 0 || a.Ratio.Value < 5 || a.OnlyReference == 0 || a.OnlyThis != 0 {
		t.Errorf("the arm of 1 s against hybrid: %+v", a)
	}
	if w.Arms[0].kind(result.Exit).latency(FromKernel).Against != nil {
		t.Error("the reference is compared with itself")
	}
}

// reads returns a curve's value at x.
func reads(curve []Point, x float64) float64 {
	y := 0.0
	for _, p := range curve {
		if p.X <= x {
			y = p.Y
		}
	}
	return y
}

func TestSequentialIsNotPaired(t *testing.T) {
	spec := resulttest.Periods(5)
	spec.Sequential = true // with all eight arms: each has a small part of the time
	s := summary(t, resulttest.Make(spec))
	w := s.Workloads[0]
	a := w.Arms[1].kind(result.Exit).latency(FromKernel).Against
	if a == nil || a.Paired || a.Difference.Interval == nil || a.OnlyReference != 0 {
		t.Errorf("against the reference: %+v", a)
	}
	if c := w.Arms[1].Cost; !c.Attributable || c.Total() <= c.CPU.Mean || c.Repeats != 3 {
		t.Errorf("cost: %+v", c)
	}
	if w.Arms[0].kind(result.Exit).Of != 600 {
		t.Errorf("the first arm had a chance at %d exits, want 600", w.Arms[0].kind(result.Exit).Of)
	}
}

func TestSummaryIsDeterministicJSON(t *testing.T) {
	e := resulttest.Make(resulttest.Many(2, 6))
	first, err := json.Marshal(summary(t, e))
	if err != nil {
		t.Fatal(err)
	}
	second, err := json.Marshal(summary(t, e))
	if err != nil || string(first) != string(second) {
		t.Errorf("two summaries of the same experiment differ; %v", err)
	}
	var back Summary
	if err := json.Unmarshal(first, &back); err != nil {
		t.Fatal(err)
	}
	again, err := json.Marshal(back)
	if err != nil || string(again) != string(first) {
		t.Errorf("the summary is not what was written; %v", err)
	}
}

// An experiment that was interrupted at once has a summary all the same.
func TestAlmostNothing(t *testing.T) {
	for name, e := range sparse() {
		s := summary(t, e)
		if _, err := json.Marshal(s); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := NewSummary(resulttest.Make(resulttest.Periods(1)), Options{Reference: "nobody"}); !errors.Is(err, ErrReference) {
		t.Errorf("an arm that there is not as the reference: %v", err)
	}
}

// sparse are experiments that lack something.
func sparse() map[string]result.Experiment {
	base := func() result.Experiment {
		spec := resulttest.Periods(4)
		spec.Arms = spec.Arms[:4]
		spec.Workloads[0].Repeats, spec.Workloads[0].Containers = 1, 5
		return resulttest.Make(spec)
	}
	empty, noPhase, untold, untrue, visible := base(), base(), base(), base(), base()
	empty.Transitions, empty.Run.Interrupted = nil, true
	noPhase.Transitions, noPhase.Run.Phases, noPhase.Plan = nil, nil, ""
	for i := range untold.Transitions {
		untold.Transitions[i].Told = nil
	}
	for i := range untrue.Transitions {
		untrue.Transitions[i].Kernel, untrue.Transitions[i].Visible = 0, 0
	}
	untrue.Run.Truth = result.Truth{Kernel: result.FromNone, Visible: result.FromNone, Lost: -1}
	for i := range visible.Transitions {
		visible.Transitions[i].Kernel = 0
	}
	visible.Run.Truth.Kernel = result.FromNone
	for i := range visible.Run.Arms {
		visible.Run.Arms[i].Costs = nil
	}
	return map[string]result.Experiment{
		"no transition": empty, "no phase": noPhase, "nothing told": untold, "no truth": untrue, "no kernel, no cost": visible,
	}
}

func TestKey(t *testing.T) {
	for i, want := range map[int]string{0: "A", 14: "O", 25: "Z", 26: "AA", 53: "BB"} {
		if got := key(i); got != want {
			t.Errorf("key(%d) = %s, want %s", i, got, want)
		}
	}
}

func TestFormat(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{Duration(0.0123), "12.3 ms"}, {Duration(9.996), "10.0 s"}, {Duration(0.99999), "1.00 s"}, {Duration(0), "0 s"},
		{Duration(4.2e-6), "4.20 µs"}, {Duration(1234), "1,234 s"}, {Duration(-0.005), "-5.00 ms"},
		{Share(0), "0 %"}, {Share(1), "100 %"}, {Share(0.99999), "99.99 %"}, {Share(0.5), "50.0 %"}, {Share(0.0012), "0.120 %"},
		{signed(0.002), "+2.00 ms"}, {signed(-2), "−2.00 s"}, {count(-1234567), "-1,234,567"}, {count(12), "12"},
		{short(time.Hour), "1h"}, {short(90 * time.Second), "1m30s"}, {short(100 * time.Millisecond), "100ms"},
	} {
		if got := replaceSpaces(c.got); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

func replaceSpaces(s string) string {
	r := []rune(s)
	for i := range r {
		if r[i] == '\u00a0' {
			r[i] = ' '
		}
	}
	return string(r)
}
