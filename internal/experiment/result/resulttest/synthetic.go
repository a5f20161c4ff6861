// Package resulttest makes experiments up, for tests: arms whose distributions are
// known, on containers whose lives are known.
package resulttest

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/internal/experiment/result"
)

// Spec says what to make up.
type Spec struct {
	Seed       uint64
	Workloads  []Workload
	Arms       []Arm
	Sequential bool
	// Lag is how long after the kernel the runtime shows a state.
	Lag time.Duration
}

// Workload is some containers, one after another.
type Workload struct {
	Name       string
	Repeats    int
	Containers int // in each repeat
	// Between starts; lives are uniform between the two, and After is from the exit to
	// the removal.
	Between, ShortestLife, LongestLife, After time.Duration
}

// Arm is a made-up generator. If Listing is set it looks at the list once every
// Period plus Listing and tells what it finds; otherwise it tells everything with
// log-normal latencies.
type Arm struct {
	result.Arm
	Listing time.Duration
	// Median and Sigma are of the latency after the kernel; of Sigma, e^Sigma is the
	// factor of one standard deviation.
	Median time.Duration
	Sigma  float64
	// Miss is the share it never tells, Twice the share it tells twice.
	Miss, Twice float64
	// CPU and RPCs are per second.
	CPU, RuntimeCPU float64
	RPCs            float64
}

// Make makes an experiment up. The same spec gives the same one.
func Make(s Spec) result.Experiment {
	r := rand.New(rand.NewPCG(s.Seed, 1))
	e := result.Experiment{Plan: "name: made-up\nseed: 7\n"}
	e.Run = result.Run{
		Format: result.Format, Name: "made-up", Seed: s.Seed, Version: "v0.0.0-test", Sequential: s.Sequential,
		Began: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC),
		Host:  result.Host{Kernel: "6.12.0", CPU: "Example CPU", CPUs: 4, MemoryMiB: 8192, Cgroup: "v2", GoVersion: "go1.26"},
		Runtime: result.Runtime{
			Endpoint: "unix:///run/containerd/containerd.sock", Name: "containerd", Version: "v2.4.0",
		},
		Truth: result.Truth{Kernel: result.FromEBPF, Visible: result.FromEvents},
	}
	for _, a := range s.Arms {
		e.Run.Arms = append(e.Run.Arms, a.Arm)
	}
	now := int64(time.Hour)
	for _, w := range s.Workloads {
		for repeat := 1; repeat <= w.Repeats; repeat++ {
			if !s.Sequential {
				now = phase(&e, s, w, repeat, "", s.Arms, now, r)
				continue
			}
			for i := range s.Arms {
				now = phase(&e, s, w, repeat, s.Arms[i].Name, s.Arms[i:i+1], now, r)
			}
		}
	}
	e.Run.Ended = e.Run.Began.Add(time.Duration(now))
	return e
}

func phase(e *result.Experiment, s Spec, w Workload, repeat int, arm string, arms []Arm, began int64, r *rand.Rand) (ended int64) {
	phases := make([]float64, len(arms))
	for i := range arms {
		phases[i] = r.Float64()
	}
	now := began
	for i := range w.Containers {
		life := int64(w.ShortestLife) + int64(r.Float64()*float64(w.LongestLife-w.ShortestLife))
		start := now
		exit := start + life
		gone := exit + int64(s.Lag) + int64(w.After)
		id := fmt.Sprintf("%s-%s%d-%05d", w.Name, arm, repeat, i)
		base := result.Transition{
			Phase: w.Name, Repeat: repeat, Container: id, Pod: "pod-" + id,
			Lifetime: life, Listed: gone - (start + int64(s.Lag)),
		}
		transitions := map[string]*result.Transition{}
		for _, kind := range []string{result.Start, result.Exit, result.Removed} {
			t := base
			t.Kind, t.Told = kind, map[string]result.Told{}
			transitions[kind] = &t
		}
		transitions[result.Start].Kernel, transitions[result.Start].Visible = start, start+int64(s.Lag)
		transitions[result.Exit].Kernel, transitions[result.Exit].Visible = exit, exit+int64(s.Lag)
		transitions[result.Removed].Asked, transitions[result.Removed].Visible = gone, gone
		for j := range arms {
			for _, t := range transitions {
				t.Arms = append(t.Arms, arms[j].Name)
			}
			arms[j].tell(transitions, gone, phases[j], r)
		}
		for _, kind := range []string{result.Start, result.Exit, result.Removed} {
			e.Transitions = append(e.Transitions, *transitions[kind])
		}
		now += int64(r.ExpFloat64() * float64(w.Between))
	}
	ended = now + int64(w.LongestLife) + int64(w.After) + int64(time.Second)
	e.Run.Phases = append(e.Run.Phases, result.Phase{
		Name: w.Name, Arm: arm, Repeat: repeat, Began: began, Ended: ended, Background: 20, Planned: w.Containers, Started: w.Containers,
	})
	seconds := time.Duration(ended - began).Seconds()
	for j := range arms {
		for k := range e.Run.Arms {
			if e.Run.Arms[k].Name == arms[j].Name {
				e.Run.Arms[k].Costs = append(e.Run.Arms[k].Costs, arms[j].cost(w.Name, repeat, seconds, arm != "", r))
			}
		}
	}
	return ended
}

// tell fills in what an arm tells of one container.
func (a *Arm) tell(transitions map[string]*result.Transition, gone int64, phase float64, r *rand.Rand) {
	start, exit, removed := transitions[result.Start], transitions[result.Exit], transitions[result.Removed]
	put := func(t *result.Transition, at, observed int64, by string) {
		told := result.Told{At: at, Observed: observed, FoundBy: by, Times: 1}
		if r.Float64() < a.Twice {
			told.Times = 2
		}
		t.Told[a.Name] = told
	}
	if a.Listing == 0 {
		if r.Float64() < a.Miss {
			return
		}
		for _, t := range []*result.Transition{start, exit, removed} {
			at := max(t.Kernel, t.Asked) + int64(float64(a.Median)*math.Exp(a.Sigma*r.NormFloat64()))
			put(t, at, at-int64(time.Millisecond), "early")
		}
		return
	}
	period := int64(a.Period + a.Listing)
	offset := int64(phase * float64(period))
	next := func(after int64) int64 { return offset + ((after-offset)/period+1)*period }
	first := next(start.Visible)
	if first >= gone {
		return
	}
	put(start, first+int64(a.Listing), first, "periodic")
	if first > exit.Visible {
		told := start.Told[a.Name]
		told.Inferred = true
		start.Told[a.Name] = told
	}
	at := max(first, next(exit.Visible))
	put(exit, at+int64(a.Listing), at, "periodic")
	last := max(at, next(gone))
	put(removed, last+int64(a.Listing), last, "periodic")
}

func (a *Arm) cost(workload string, repeat int, seconds float64, attributable bool, r *rand.Rand) result.Cost {
	noise := func() float64 { return 1 + 0.02*r.NormFloat64() }
	rpcs := a.RPCs
	if a.Listing > 0 {
		rpcs = 2 / (a.Period + a.Listing).Seconds()
	}
	each := uint64(math.Round(rpcs * seconds / 2))
	return result.Cost{
		Phase: workload, Repeat: repeat, Window: seconds,
		CPU: a.CPU * seconds * noise(), RuntimeCPU: a.RuntimeCPU * seconds * noise(), Attributable: attributable,
		RPCs:    map[string]uint64{"ListPodSandbox": each, "ListContainers": each},
		PeakRSS: 30 << 20,
	}
}

// Periods is an experiment like the plan of that name: one hybrid arm, and one a
// period, on 600 containers in 3 repeats.
func Periods(seed uint64) Spec {
	s := Spec{
		Seed: seed, Lag: 20 * time.Millisecond,
		Workloads: []Workload{{
			Name: "churn", Repeats: 3, Containers: 200, Between: 300 * time.Millisecond,
			ShortestLife: 5 * time.Millisecond, LongestLife: 4 * time.Second, After: 50 * time.Millisecond,
		}},
		Arms: []Arm{{
			Arm:    result.Arm{Name: "hybrid", Kind: result.Hybrid, Triggers: []string{"cgroup", "ebpf", "cri"}, Period: 10 * time.Second},
			Median: 26 * time.Millisecond, Sigma: 0.25, CPU: 0.004, RuntimeCPU: 0.01, RPCs: 6,
		}},
	}
	for _, p := range []time.Duration{100, 300, 1000, 3000, 10000, 30000, 60000} {
		p *= time.Millisecond
		s.Arms = append(s.Arms, Arm{
			Arm:     result.Arm{Name: fmt.Sprintf("every-%gs", p.Seconds()), Kind: result.Hybrid, Triggers: []string{}, Period: p},
			Listing: 8 * time.Millisecond, CPU: 0.002 + 0.003/p.Seconds(), RuntimeCPU: 0.004 / p.Seconds(),
		})
	}
	return s
}

// Many is an experiment with the given number of arms of all kinds, and two workloads.
func Many(seed uint64, arms int) Spec {
	s := Periods(seed)
	s.Workloads = append(s.Workloads, Workload{
		Name: "short-lived", Repeats: 1, Containers: 500, Between: 40 * time.Millisecond, LongestLife: 50 * time.Millisecond, After: 0,
	})
	kinds := []string{result.KubeletGeneric, result.KubeletEvented, result.CRIEvents, result.CRIPoll}
	for i := 0; len(s.Arms) < arms; i++ {
		a := Arm{
			Arm:    result.Arm{Name: fmt.Sprintf("%s-%d", kinds[i%4], i), Kind: kinds[i%4], Period: time.Duration(1+i) * time.Second},
			Median: time.Duration(30+9*i) * time.Millisecond, Sigma: 0.3, Miss: 0.01 * float64(i), Twice: 0.002 * float64(i%3),
			CPU: 0.005 + 0.001*float64(i), RuntimeCPU: 0.01, RPCs: 3 + float64(i),
		}
		if i%4 == 0 || i%4 == 3 {
			a.Listing = 10 * time.Millisecond
		}
		s.Arms = append(s.Arms, a)
	}
	s.Arms = s.Arms[:arms]
	return s
}

// Write writes an experiment to a directory, as a run does.
func Write(dir string, e result.Experiment) error {
	if err := result.WriteRun(dir, e.Run); err != nil {
		return err
	}
	if err := result.WriteFile(dir, result.PlanFile, []byte(e.Plan)); err != nil {
		return err
	}
	w, err := result.NewTransitionWriter(dir)
	if err != nil {
		return err
	}
	for _, t := range e.Transitions {
		if err := w.Write(t); err != nil {
			return errors.Join(err, w.Close())
		}
	}
	return w.Close()
}
