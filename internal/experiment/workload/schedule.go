package workload

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/internal/experiment/plan"
)

// Start is one container to be started.
type Start struct {
	// At is when, from the begin of the part that counts; negative during warm-up.
	At time.Duration
	// Lifetime is how long it is to run.
	Lifetime time.Duration
	// Pod is the number of the pod that stays which it is to be in, or OwnPod.
	Pod int
}

// Counts reports whether the container is part of what is measured.
func (s Start) Counts() bool { return s.At >= 0 }

// OwnPod stands for a pod that comes and goes with its container.
const OwnPod = -1

// Schedule is a workload, told beforehand.
type Schedule struct {
	// Starts are in the order of their times.
	Starts []Start
	// WarmUp is how long it goes on before anything counts, Length how long arrivals
	// that count go on.
	WarmUp, Length time.Duration
}

// Counted is how many of the starts count.
func (s *Schedule) Counted() int {
	n := 0
	for _, st := range s.Starts {
		if st.Counts() {
			n++
		}
	}
	return n
}

// End is when the last container that counts ends, if it is started in time.
func (s *Schedule) End() time.Duration {
	end := s.Length
	for _, st := range s.Starts {
		end = max(end, st.At+st.Lifetime)
	}
	return end
}

// MostAtATime is how many containers the schedule has running at once, each with
// extra time for being made and removed.
func (s *Schedule) MostAtATime(extra time.Duration) int {
	type change struct {
		at time.Duration
		by int
	}
	var changes []change
	for _, st := range s.Starts {
		changes = append(changes, change{st.At, 1}, change{st.At + st.Lifetime + extra, -1})
	}
	slices.SortFunc(changes, func(a, b change) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.by, b.by)) })
	most, now := 0, 0
	for _, c := range changes {
		now += c.by
		most = max(most, now)
	}
	return most
}

// Make draws a schedule. The same workload, seed and repeat always give the same one;
// a longer duration or warm-up adds to it and changes nothing before.
func Make(w *plan.Workload, warmUp time.Duration, seed uint64, index, repeat int) *Schedule {
	s := &Schedule{WarmUp: warmUp, Length: w.Duration}
	draw := func(stream uint64) *rand.Rand {
		return rand.New(rand.NewPCG(seed, uint64(repeat)<<32|uint64(index)<<8|stream))
	}
	if !w.Arrivals.None() {
		// Each with draws of its own: the warm-up does not shift what counts.
		before := slices.DeleteFunc(arrivals(w.Arrivals, draw(1), warmUp, 0), func(t time.Duration) bool { return t == 0 })
		for i := range before {
			before[i] = -before[i]
		}
		slices.Reverse(before)
		s.add(w, before, draw(2))
		counted := arrivals(w.Arrivals, draw(3), w.Duration, w.Count)
		s.add(w, counted, draw(4))
		if s.Length == 0 && len(counted) > 0 {
			s.Length = counted[len(counted)-1]
		}
	}
	return s
}

func (s *Schedule) add(w *plan.Workload, at []time.Duration, r *rand.Rand) {
	for _, t := range at {
		st := Start{At: t, Lifetime: lifetime(w.Lifetime, r), Pod: OwnPod}
		if w.Churn == plan.ChurnContainers {
			st.Pod = len(s.Starts) % w.Pods
		}
		s.Starts = append(s.Starts, st)
	}
}

// arrivals draws times from 0 on: before the end of length, count at most; 0 is no
// bound.
func arrivals(a plan.Arrivals, r *rand.Rand, length time.Duration, count int) []time.Duration {
	if length == 0 && count == 0 {
		return nil
	}
	var out []time.Duration
	t := 0.0 // seconds: sums of rounded times would drift
	for n := 0; count == 0 || n < count; n++ {
		switch a.Kind {
		case plan.Poisson:
			t += r.ExpFloat64() / a.Rate
		case plan.FixedRate:
			t = float64(n) / a.Rate
		case plan.Burst:
			t = float64(n/a.Size) * a.Every.Seconds()
		}
		at := time.Duration(t * float64(time.Second))
		if length > 0 && at >= length {
			break
		}
		out = append(out, at)
	}
	return out
}

func lifetime(l plan.Lifetime, r *rand.Rand) time.Duration {
	switch l.Kind {
	case plan.Uniform:
		return l.Min + time.Duration(r.Float64()*float64(l.Max-l.Min))
	case plan.Exponential:
		mean := float64(l.Value)
		if l.Max == 0 {
			return time.Duration(min(r.ExpFloat64()*mean, math.MaxInt64/2))
		}
		// The inverse of the distribution function, cut off at the bound: unlike drawing
		// again, it takes one draw whatever the bound.
		below := -math.Expm1(-float64(l.Max) / mean)
		return time.Duration(-mean * math.Log1p(-r.Float64()*below))
	case plan.FromFile:
		return l.Observed[r.IntN(len(l.Observed))]
	default:
		return l.Value
	}
}
