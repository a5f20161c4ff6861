package compare

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/internal/experiment/result"
	"github.com/hybrid-pleg/hybrid-pleg/internal/experiment/result/resulttest"
	"github.com/hybrid-pleg/hybrid-pleg/internal/experiment/stats"
)

func spec(seed uint64) resulttest.Spec {
	s := resulttest.Periods(seed)
	s.Arms = s.Arms[:4]
	return s
}

func compared(t *testing.T, a, b result.Experiment) *Comparison {
	t.Helper()
	c, err := Compare(a, b, Options{Resamples: 100, MinChange: DefaultMinChange})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func find(t *testing.T, c *Comparison, arm, metric string) Row {
	t.Helper()
	i := slices.IndexFunc(c.Rows, func(r Row) bool { return r.Arm == arm && r.Metric == metric })
	if i < 0 {
		t.Fatalf("no %s of %s in the comparison", metric, arm)
	}
	return c.Rows[i]
}

// Two runs of the same thing differ by chance only. With Bonferroni's level, that any
// of all those differences passes for real is as rare as 1 in 20 comparisons.
func TestSameThingTwice(t *testing.T) {
	wrong := 0
	for seed := range uint64(10) {
		c := compared(t, resulttest.Make(spec(2*seed+1)), resulttest.Make(spec(2*seed+2)))
		if len(c.Beyond()) > 0 {
			wrong++
			t.Logf("seeds %d and %d: %+v", 2*seed+1, 2*seed+2, c.Beyond())
		}
	}
	if wrong > 2 {
		t.Errorf("in %d of 10 comparisons chance passed for a difference", wrong)
	}
}

func TestRealDifferences(t *testing.T) {
	changed := spec(2)
	changed.Arms[0].Median = 40 * time.Millisecond // was 26
	changed.Arms[0].Miss = 0.1                     // was 0
	changed.Arms[0].CPU /= 3
	changed.Arms[1].CPU *= 1.5
	c := compared(t, resulttest.Make(spec(1)), resulttest.Make(changed))
	for _, want := range []struct {
		arm, metric string
		verdict     Verdict
	}{
		{"hybrid", "exit p50", Higher},
		{"hybrid", "exit missed", Higher},
		{"hybrid", "generator processor", Lower},
		{"hybrid", "calls", Noise},
		{"every-0.1s", "generator processor", Higher},
		{"every-0.1s", "exit p50", Noise},
		{"every-1s", "exit missed", Noise},
	} {
		if r := find(t, c, want.arm, want.metric); r.Verdict != want.verdict {
			t.Errorf("%s of %s is %s, want %s: %+v", want.metric, want.arm, r.Verdict, want.verdict, r)
		}
	}
	r := find(t, c, "hybrid", "exit missed")
	if r.A != 0 || r.Relative != nil || r.B < 0.05 {
		t.Errorf("missed: %+v", r)
	}
	if c.Comparisons != len(c.Rows) || c.Level <= 0.99 {
		t.Errorf("level %v for %d comparisons", c.Level, c.Comparisons)
	}
}

func TestSmallAndUnknown(t *testing.T) {
	changed := spec(1)
	changed.Arms[0].Median = 27 * time.Millisecond
	c, err := Compare(resulttest.Make(spec(1)), resulttest.Make(changed), Options{MinChange: 0.5})
	if err != nil {
		t.Fatal(err)
	}
	// The same seed: the same arrivals and the same noise.
	if r := find(t, c, "hybrid", "exit p50"); r.Verdict != Small && r.Verdict != Noise {
		t.Errorf("4 %% more with at least 50 %% asked for: %+v", r)
	}
	once := spec(3)
	once.Workloads[0].Repeats = 1
	c = compared(t, resulttest.Make(once), resulttest.Make(once))
	if r := find(t, c, "hybrid", "generator processor"); r.Verdict != Unknown || r.Interval != nil {
		t.Errorf("one repeat has no variance: %+v", r)
	}
	if v := verdict(Row{A: 100, Difference: 1, Relative: new(0.01), Interval: &stats.Interval{Low: 0.5, High: 1.5}}, 0.05); v != Small {
		t.Errorf("1 %% is %s, want small", v)
	}
}

func TestRefusesAndWarns(t *testing.T) {
	base := func() result.Experiment { return resulttest.Make(spec(1)) }
	for _, c := range []struct {
		name   string
		change func(*result.Experiment)
		want   string // in the error
	}{
		{"embedded", func(e *result.Experiment) { e.Run.Truth.Kernel = result.FromEmbedded }, "one ran on the embedded runtime"},
		{"other arms", func(e *result.Experiment) {
			for i := range e.Run.Arms {
				e.Run.Arms[i].Period++
			}
		}, "no arm of the same name"},
		{"other workload", func(e *result.Experiment) {
			for i := range e.Run.Phases {
				e.Run.Phases[i].Name = "other"
			}
			e.Transitions = nil
		}, "no workload"},
	} {
		other := base()
		c.change(&other)
		_, err := Compare(base(), other, Options{})
		if !errors.Is(err, ErrIncomparable) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	other := base()
	other.Run.Runtime.Name, other.Run.Host.CPUs, other.Run.Sequential, other.Run.Interrupted = "cri-o", 8, true, true
	other.Plan = "another"
	other.Run.Arms[1].Triggers = []string{"cri"}
	other.Run.Arms[2].Name = "renamed"
	for i := range other.Transitions {
		tr := &other.Transitions[i]
		tr.Arms = nil
		tr.Told = nil
	}
	c := compared(t, base(), other)
	all := strings.Join(c.Warnings, "\n")
	for _, want := range []string{
		"runtime differs: containerd v2.4.0, and cri-o v2.4.0", "number of processors differs: 4, and 8", "one after another", "plans differ",
		"second run was interrupted", `arm "every-0.1s" is left out`, `arm "every-0.3s" is in the first run only`, `arm "renamed" is in the second run only`,
	} {
		if !strings.Contains(all, want) {
			t.Errorf("no warning %q in\n%s", want, all)
		}
	}
}

func TestOutputs(t *testing.T) {
	changed := spec(2)
	changed.Arms[0].Median = 60 * time.Millisecond
	changed.Arms[0].Name, changed.Arms[1].Name = "<b>hybrid", "<b>every"
	first := spec(1)
	first.Arms[0].Name, first.Arms[1].Name = "<b>hybrid", "<b>every"
	c := compared(t, resulttest.Make(first), resulttest.Make(changed))
	var text, html, js strings.Builder
	if err := errors.Join(c.WriteText(&text), c.WriteHTML(&html), c.WriteJSON(&js)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"differences are beyond noise", "exit p50 higher", "HIGHER", "within noise", "Bonferroni", "CHURN"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is not in\n%s", want, text.String())
		}
	}
	if strings.Contains(html.String(), "<b>") || !strings.HasSuffix(html.String(), "</html>\n") || strings.Contains(html.String(), "ZgotmplZ") {
		t.Error("the page is cut off, or holds markup from outside")
	}
	var back Comparison
	if err := json.Unmarshal([]byte(js.String()), &back); err != nil || len(back.Rows) != len(c.Rows) {
		t.Errorf("JSON: %d rows, want %d, %v", len(back.Rows), len(c.Rows), err)
	}
}
