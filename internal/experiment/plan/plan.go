package plan

import (
	"errors"
	"time"
)

// ErrPlan marks a plan that can't be used.
var ErrPlan = errors.New("unusable plan")

// Plan is an experiment.
type Plan struct {
	Name string
	// Seed makes the workloads repeatable: the same seed gives the same arrivals and
	// lifetimes, on each runtime and for each arm.
	Seed uint64
	// Repeats is how often all of it is done.
	Repeats int
	// Sequential runs the arms one after another, each with the whole workload, so
	// that what the runtime spends can be put down to an arm.
	Sequential bool
	// WarmUp is how long a workload goes on before anything counts.
	WarmUp time.Duration
	// Settle bounds how long arms are waited for after the last change; 0 is two seconds
	// more than the longest period.
	Settle time.Duration
	// StateLag is how far the embedded runtime's CRI is behind its containers.
	StateLag  Lag
	Arms      []Arm
	Workloads []Workload

	source
}

// The kinds of arm.
const (
	// Hybrid is hybrid-pleg run, with whatever triggers.
	Hybrid = "hybrid"
	// KubeletGeneric and KubeletEvented are the kubelet's own generators.
	KubeletGeneric = "kubelet-generic"
	KubeletEvented = "kubelet-evented"
	// CRIEvents prints the runtime's event stream and does nothing else, CRIPoll lists
	// containers once a period and compares.
	CRIEvents = "cri-events"
	CRIPoll   = "cri-poll"
)

// Kinds are all kinds of arm.
func Kinds() []string {
	return []string{Hybrid, KubeletGeneric, KubeletEvented, CRIEvents, CRIPoll}
}

// Arm is a generator under test.
type Arm struct {
	Name string
	Kind string
	// Triggers are those of a hybrid arm; none: it relists by its period alone.
	Triggers []string
	// Period is the pause between relists of everything, PeriodDegraded that while a
	// trigger is down or misses something.
	Period, PeriodDegraded time.Duration
	// Optional leaves the arm out, and says so, where it can't be had.
	Optional bool

	source
}

// Kubelet reports whether the arm is one of the kubelet's generators.
func (a *Arm) Kubelet() bool { return a.Kind == KubeletGeneric || a.Kind == KubeletEvented }

// How a workload's containers end.
const (
	// EndExit: the program ends by itself.
	EndExit = "exit"
	// EndStop: the runtime is asked to kill it.
	EndStop = "stop"
)

// What comes and goes in a workload.
const (
	// ChurnContainers: containers, in pods that stay.
	ChurnContainers = "containers"
	// ChurnPods: whole pods, each with one container.
	ChurnPods = "pods"
)

// Workload is what happens to containers while the arms watch.
type Workload struct {
	Name string
	// Background is how many containers run all the time, PerPod how many of them, at
	// most, share a pod.
	Background, PerPod int
	// Arrivals say when containers are started, Lifetime how long each runs.
	Arrivals Arrivals
	Lifetime Lifetime
	// RemovalDelay lies between a container's end, as the runtime shows it, and its
	// removal.
	RemovalDelay time.Duration
	// End is EndExit or EndStop, Churn ChurnContainers or ChurnPods.
	End, Churn string
	// Pods is how many pods the containers come and go in, with ChurnContainers.
	Pods int
	// Duration and Count bound the arrivals that count; 0 is no bound, one of them is
	// needed.
	Duration time.Duration
	Count    int
	// Parallel bounds how many containers are under way at a time.
	Parallel int

	source
}

// defaults of what a plan leaves open.

func newPlan() Plan {
	return Plan{Name: "unnamed", Seed: 1, Repeats: 1, WarmUp: 5 * time.Second, StateLag: RealisticLag()}
}

func newArm() Arm { return Arm{Kind: Hybrid} }

func newWorkload() Workload {
	return Workload{
		PerPod: 10, End: EndExit, Churn: ChurnContainers, Pods: 4, Parallel: 500,
		Arrivals: Arrivals{Kind: NoArrivals}, Lifetime: Lifetime{Kind: Fixed, Value: time.Second},
	}
}

// Periods that arms have where none is given.
const (
	hybridPeriod   = 10 * time.Second
	degradedPeriod = time.Second
	// plainPeriod is also the kubelet's, with and without its EventedPLEG (v1.37).
	plainPeriod = time.Second
)

// complete fills in what depends on other settings.
func (a *Arm) complete() {
	if a.Period == 0 {
		switch {
		case a.Kind == Hybrid && len(a.Triggers) > 0:
			a.Period = hybridPeriod
		case a.Kind == CRIEvents:
		default:
			a.Period = plainPeriod
		}
	}
	if a.Kind == Hybrid && len(a.Triggers) > 0 && a.PeriodDegraded == 0 {
		a.PeriodDegraded = min(degradedPeriod, a.Period)
	}
}

// SettleTime is how long arms are waited for: two seconds more than the longest
// period, unless the plan says otherwise.
func (p *Plan) SettleTime() time.Duration {
	if p.Settle > 0 {
		return p.Settle
	}
	longest := time.Duration(0)
	for i := range p.Arms {
		longest = max(longest, p.Arms[i].Period)
	}
	return longest + 2*time.Second
}

// Where says where a setting of the workload was given, for messages.
func (w *Workload) Where(setting string) string { return w.of(setting) }
