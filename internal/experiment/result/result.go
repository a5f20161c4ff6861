// Package result is what an experiment leaves behind: the plan as it was run, facts
// about the host, every transition with what each arm knew of it and when, and what
// each arm cost. It is plain data that is written by the run, and read by the report
// and by comparisons.
//
// All times are nanoseconds of the kernel's monotonic clock (CLOCK_MONOTONIC), which
// the kernel's own time stamps and every process of the host share; 0 means that the
// moment was not observed.
package result

import "time"

// Format is the version of the files. A reader refuses one that is newer.
const Format = 1

// The files in an experiment's directory.
const (
	PlanFile        = "plan.yaml"
	RunFile         = "run.json"
	TransitionsFile = "transitions.ndjson"
	TransitionsCSV  = "transitions.csv"
	SummaryFile     = "summary.json"
	ReportFile      = "report.html"
)

// Run describes one experiment.
type Run struct {
	Format  int       `json:"format"`
	Name    string    `json:"name"`
	Seed    uint64    `json:"seed"`
	Began   time.Time `json:"began"`
	Ended   time.Time `json:"ended"`
	Version string    `json:"version"`
	// Interrupted: it was ended before all of the plan was done.
	Interrupted bool `json:"interrupted,omitempty"`
	// Sequential: the arms ran one after another, each with a workload of its own.
	Sequential bool    `json:"sequential,omitempty"`
	Host       Host    `json:"host"`
	Runtime    Runtime `json:"runtime"`
	Truth      Truth   `json:"truth"`
	Arms       []Arm   `json:"arms"`
	Phases     []Phase `json:"phases"`
	// Notes are what a reader must know: parts that failed, what could not be
	// measured and why.
	Notes []string `json:"notes,omitempty"`
}

// Host is where it ran.
type Host struct {
	Kernel     string `json:"kernel"`
	CPU        string `json:"cpu,omitempty"`
	CPUs       int    `json:"cpus"`
	MemoryMiB  int    `json:"memoryMiB"`
	Cgroup     string `json:"cgroup,omitempty"` // v1, v2 or hybrid
	Virtual    string `json:"virtual,omitempty"`
	GoVersion  string `json:"goVersion"`
	LoadBefore string `json:"loadBefore,omitempty"`
}

// Runtime is what it ran on.
type Runtime struct {
	Endpoint string `json:"endpoint"`
	Name     string `json:"name"`
	Version  string `json:"version"`
	// StateLag is the delay of state that the embedded runtime was told to have, as
	// text; empty for real runtimes.
	StateLag string `json:"stateLag,omitempty"`
}

// Truth says where the true times come from.
type Truth struct {
	// Kernel names the source of exec and exit times: "ebpf", "embedded" for the
	// embedded runtime's own, or "none".
	Kernel string `json:"kernel"`
	// Visible names the source of the moment when the runtime showed a state: "events"
	// (its event stream), "embedded", or "none".
	Visible string `json:"visible"`
	// Lost counts records that the source lost, -1 where it can't be known.
	Lost int64 `json:"lost"`
}

// Arm is one generator under test.
type Arm struct {
	Name string `json:"name"`
	// Kind is hybrid, kubelet-generic, kubelet-evented, cri-events or cri-poll.
	Kind     string   `json:"kind"`
	Triggers []string `json:"triggers,omitempty"`
	// Period is the pause between relists of everything, PeriodDegraded that while a
	// trigger is down; 0 where the arm has none.
	Period         time.Duration `json:"periodNs,omitempty"`
	PeriodDegraded time.Duration `json:"periodDegradedNs,omitempty"`
	Command        []string      `json:"command"`
	// Failed says why the arm ended before its time.
	Failed string `json:"failed,omitempty"`
	Costs  []Cost `json:"costs"`
	// False are events about the workload's containers that tell of what never
	// happened.
	False []FalseEvent `json:"falseEvents,omitempty"`
}

// FalseEvent is an event that fits no transition.
type FalseEvent struct {
	Phase     string `json:"phase"`
	Repeat    int    `json:"repeat"`
	Kind      string `json:"kind"`
	Container string `json:"container"`
	At        int64  `json:"atNs"`
}

// Phase is one part of the workload: what happened between Began and Ended.
type Phase struct {
	Name string `json:"name"`
	// Arm is the arm that ran in it; empty: all of them.
	Arm        string `json:"arm,omitempty"`
	Repeat     int    `json:"repeat"`
	Began      int64  `json:"beganNs"`
	Ended      int64  `json:"endedNs"`
	Background int    `json:"background"` // containers that ran all the time
	Planned    int    `json:"planned"`    // containers to be started
	Started    int    `json:"started"`
	// FailedStarts counts those that the runtime refused to make or to start.
	FailedStarts int `json:"failedStarts,omitempty"`
}

// Cost is what an arm used up in a phase.
type Cost struct {
	Phase  string  `json:"phase"`
	Repeat int     `json:"repeat"`
	Window float64 `json:"windowSeconds"`
	// CPU is the arm's processor time, RuntimeCPU the runtime's, shims left out, in
	// seconds. RuntimeCPU is the arm's doing only in a sequential run; Attributable says
	// so. What the runtime spends in such a window without any arm, RuntimeBase, is then
	// taken off it.
	CPU          float64 `json:"cpuSeconds"`
	RuntimeCPU   float64 `json:"runtimeCPUSeconds"`
	RuntimeBase  float64 `json:"runtimeBaseSeconds,omitempty"`
	Attributable bool    `json:"attributable"`
	// RPCs counts calls of the runtime by method; nil where it can't be known.
	RPCs map[string]uint64 `json:"rpcs,omitempty"`
	// PeakRSS is in bytes.
	PeakRSS int64 `json:"peakRSSBytes"`
}

// The kinds of arms.
const (
	Hybrid         = "hybrid"
	KubeletGeneric = "kubelet-generic"
	KubeletEvented = "kubelet-evented"
	CRIEvents      = "cri-events"
	CRIPoll        = "cri-poll"
)

// The sources of truth. The embedded runtime can be that of both times.
const (
	FromEBPF     = "ebpf"
	FromEvents   = "events"
	FromEmbedded = "embedded"
	FromNone     = "none"
)

// Kind of a transition.
const (
	Start   = "start"
	Exit    = "exit"
	Removed = "removed"
)

// Transition is one change of one container and what became of it.
type Transition struct {
	Phase     string `json:"phase"`
	Repeat    int    `json:"repeat"`
	Kind      string `json:"kind"`
	Container string `json:"container"`
	Pod       string `json:"pod"`
	// Lifetime is from the true start to the true exit where both were observed, the
	// planned one else; Listed from when the runtime could first list it to its
	// removal, 0 where not known. Both in nanoseconds.
	Lifetime int64 `json:"lifetimeNs"`
	Listed   int64 `json:"listedNs,omitempty"`
	// Kernel is when it really happened, Visible when the runtime showed it. Asked is
	// when the workload asked for it (start, stop or removal), where it did.
	Kernel  int64 `json:"kernelNs,omitempty"`
	Visible int64 `json:"visibleNs,omitempty"`
	Asked   int64 `json:"askedNs,omitempty"`
	// Told holds, by the arm's name, when each arm told of it. An arm that did not is
	// missing; Arms lists those that had the chance.
	Told map[string]Told `json:"told"`
	Arms []string        `json:"arms"`
}

// Told is what an arm said of a transition.
type Told struct {
	At int64 `json:"atNs"`
	// Observed is when the listing that showed it was begun; 0 where there is none.
	Observed int64  `json:"observedNs,omitempty"`
	FoundBy  string `json:"foundBy,omitempty"`
	Trigger  string `json:"trigger,omitempty"`
	// Inferred: no listing showed this state.
	Inferred bool `json:"inferred,omitempty"`
	// Times is how often it was told; more than once is an error of the arm.
	Times int `json:"times"`
}
