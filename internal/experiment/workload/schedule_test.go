package workload

import (
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/internal/experiment/plan"
)

func workload(arrivals, lifetime string) *plan.Workload {
	a, err := plan.ParseArrivals(arrivals)
	if err != nil {
		panic(err)
	}
	l, err := plan.ParseLifetime(lifetime)
	if err != nil {
		panic(err)
	}
	return &plan.Workload{Name: "w", Arrivals: a, Lifetime: l, Churn: plan.ChurnContainers, Pods: 4, PerPod: 10, Parallel: 100, End: plan.EndExit}
}

func TestScheduleRepeats(t *testing.T) {
	w := workload("poisson 20/s", "exponential 300ms")
	w.Duration = 10 * time.Second
	one := Make(w, time.Second, 7, 0, 0)
	if again := Make(w, time.Second, 7, 0, 0); !reflect.DeepEqual(one, again) {
		t.Error("the same seed gives another schedule")
	}
	for name, other := range map[string]*Schedule{
		"seed": Make(w, time.Second, 8, 0, 0), "workload": Make(w, time.Second, 7, 1, 0), "repeat": Make(w, time.Second, 7, 0, 1),
	} {
		if reflect.DeepEqual(one.Starts, other.Starts) {
			t.Errorf("another %s gives the same schedule", name)
		}
	}
	// What counts does not depend on the warm-up, nor its beginning on how long it is.
	counted := func(s *Schedule) []Start {
		return slices.DeleteFunc(slices.Clone(s.Starts), func(st Start) bool { return st.At < 0 })
	}
	times := func(starts []Start) (out []time.Duration) {
		for _, st := range starts {
			out = append(out, st.At, st.Lifetime)
		}
		return out
	}
	none := Make(w, 0, 7, 0, 0)
	if !slices.Equal(times(counted(one)), times(none.Starts)) {
		t.Error("the warm-up changes what counts")
	}
	w.Duration *= 2
	long := Make(w, 0, 7, 0, 0)
	if !slices.Equal(times(long.Starts)[:len(times(none.Starts))], times(none.Starts)) {
		t.Error("a longer duration changes the beginning")
	}
}

func TestSchedule(t *testing.T) {
	w := workload("fixed 4/s", "fixed 3s")
	w.Duration = 2 * time.Second
	s := Make(w, time.Second, 1, 0, 0)
	var at []time.Duration
	for _, st := range s.Starts {
		at = append(at, st.At/time.Millisecond)
	}
	if want := []time.Duration{-750, -500, -250, 0, 250, 500, 750, 1000, 1250, 1500, 1750}; !slices.Equal(at, want) {
		t.Errorf("the starts are at %d ms, want %d", at, want)
	}
	if s.Counted() != 8 || s.End() != 4750*time.Millisecond || s.MostAtATime(0) != 11 || s.MostAtATime(-2*time.Second) != 4 {
		t.Errorf("counted %d, ends at %s, %d and %d at a time", s.Counted(), s.End(), s.MostAtATime(0), s.MostAtATime(-2*time.Second))
	}
	if s.Starts[5].Pod != 1 {
		t.Errorf("the sixth is in pod %d", s.Starts[5].Pod)
	}

	w = workload("burst 3 every 10s", "fixed 1s")
	w.Count, w.Churn = 7, plan.ChurnPods
	s = Make(w, 0, 1, 0, 0)
	if len(s.Starts) != 7 || s.Starts[2].At != 0 || s.Starts[3].At != 10*time.Second || s.Length != 20*time.Second || s.Starts[0].Pod != OwnPod {
		t.Errorf("the bursts are %+v", s)
	}

	idle := Make(&plan.Workload{Background: 3, Duration: time.Minute}, time.Second, 1, 0, 0)
	if len(idle.Starts) != 0 || idle.Counted() != 0 || idle.End() != time.Minute || idle.MostAtATime(0) != 0 {
		t.Errorf("nothing is %+v", idle)
	}
}

// TestDistributions compares what is drawn with the distribution asked for, by the
// largest distance between the distribution functions (Kolmogorov and Smirnov). The
// seed is fixed, so that it fails always or never.
func TestDistributions(t *testing.T) {
	const n = 20000
	// 99.9% of samples are nearer than this.
	most := 1.95 / math.Sqrt(n)
	second := time.Second.Seconds()
	tests := []struct {
		name string
		w    *plan.Workload
		of   func(*Schedule) []float64
		cdf  func(float64) float64
	}{
		{"gaps of poisson", workload("poisson 8/s", "fixed 1s"), gaps, func(x float64) float64 { return -math.Expm1(-8 * x) }},
		{"uniform", workload("fixed 1/s", "uniform 1s 3s"), lives, func(x float64) float64 { return (x - second) / 2 }},
		{"exponential", workload("fixed 1/s", "exponential 2s"), lives, func(x float64) float64 { return -math.Expm1(-x / 2) }},
		{"exponential up to a bound", workload("fixed 1/s", "exponential 2s max 3s"), lives, func(x float64) float64 {
			return min(1, math.Expm1(-x/2)/math.Expm1(-1.5))
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			test.w.Count = n
			values := test.of(Make(test.w, 0, 42, 0, 0))
			slices.Sort(values)
			worst := 0.0
			for i, v := range values {
				want := test.cdf(v)
				worst = max(worst, math.Abs(want-float64(i)/float64(len(values))), math.Abs(want-float64(i+1)/float64(len(values))))
			}
			if worst > most {
				t.Errorf("the distance is %.4f, at most %.4f is due", worst, most)
			}
		})
	}
	w := workload("fixed 1/s", "file x")
	w.Lifetime.Observed = []time.Duration{1, 2, 2, 4}
	w.Count = n
	counts := map[time.Duration]int{}
	for _, st := range Make(w, 0, 42, 0, 0).Starts {
		counts[st.Lifetime]++
	}
	for life, want := range map[time.Duration]int{1: n / 4, 2: n / 2, 4: n / 4} {
		if off := math.Abs(float64(counts[life] - want)); off > 4*math.Sqrt(n/4) {
			t.Errorf("%d of %d have the lifetime %d, want about %d", counts[life], n, life, want)
		}
	}
}

func gaps(s *Schedule) (out []float64) {
	last := 0.0
	for _, st := range s.Starts {
		out = append(out, st.At.Seconds()-last)
		last = st.At.Seconds()
	}
	return out
}

func lives(s *Schedule) (out []float64) {
	for _, st := range s.Starts {
		out = append(out, st.Lifetime.Seconds())
	}
	return out
}
