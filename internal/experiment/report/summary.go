package report

import (
	"github.com/hybrid-pleg/hybrid-pleg/internal/experiment/result"
	"github.com/hybrid-pleg/hybrid-pleg/internal/experiment/stats"
)

// SummaryFormat is the version of summary.json. It grows when a field changes its
// meaning or goes away, not when one is added.
const SummaryFormat = 1

// Summary is summary.json: every figure of an experiment. Times are seconds, shares
// are between 0 and 1, and a figure that could not be had is absent or null.
type Summary struct {
	Format int `json:"format"`
	// Run is run.json: what ran where, and the raw costs.
	Run result.Run `json:"run"`
	// Plan is the plan as it was run, as YAML.
	Plan   string `json:"plan"`
	Method Method `json:"method"`
	// Arms are in the order of the plan.
	Arms      []Arm      `json:"arms"`
	Workloads []Workload `json:"workloads"`
	// Limits say in words how it was measured and what that can't show.
	Limits []string `json:"limits"`
}

// Method says how intervals were made.
type Method struct {
	// Level is the share of intervals that hold the true value.
	Level     float64 `json:"level"`
	Resamples int     `json:"resamples"`
	Seed      uint64  `json:"seed"`
	// Reference is the arm that the others are compared with.
	Reference string `json:"reference"`
}

// Arm names an arm and says what it is.
type Arm struct {
	Name string `json:"name"`
	// Key is the letter that stands for the arm in charts.
	Key  string `json:"key"`
	Kind string `json:"kind"`
	// Text says what the arm looks at and how often.
	Text   string `json:"text"`
	Failed string `json:"failed,omitempty"`
}

// Workload is one workload with all its repeats.
type Workload struct {
	Name    string  `json:"name"`
	Repeats int     `json:"repeats"`
	Seconds float64 `json:"seconds"`
	// Background containers ran all the time. Planned, Started and FailedStarts count
	// containers over all repeats.
	Background   int `json:"background"`
	Planned      int `json:"planned"`
	Started      int `json:"started"`
	FailedStarts int `json:"failedStarts"`
	// Answers are the findings in words.
	Answers []string `json:"answers"`
	// Arms are those that ran in this workload, in the order of the plan.
	Arms     []Figures `json:"arms"`
	Timeline *Timeline `json:"timeline,omitempty"`
}

// Figures are one arm's in one workload.
type Figures struct {
	Arm string `json:"arm"`
	Key string `json:"key"`
	// Kinds holds start, exit and removed, those that happened.
	Kinds []Kind `json:"kinds"`
	Cost  *Cost  `json:"cost,omitempty"`
	// Theory is set for an arm that has nothing but a period.
	Theory *Theory `json:"theory,omitempty"`
	// FalseEvents counts events that tell of what never happened.
	FalseEvents int `json:"falseEvents"`
	// Dominated: another arm told exits at least as fast, missed at most as many and cost
	// at most as much, and is better in one of these.
	Dominated bool `json:"dominated"`
}

// Kind is what became of one kind of transition.
type Kind struct {
	Kind string `json:"kind"` // start, exit or removed
	// Of is how many there were while the arm ran, Missed those that it never told.
	Of             int            `json:"of"`
	Missed         int            `json:"missed"`
	MissedShare    float64        `json:"missedShare"`
	MissedInterval stats.Interval `json:"missedInterval"`
	// Inferred were told although no listing showed the state.
	Inferred int `json:"inferred"`
	// Duplicates were told more than once; Premature are exits told before they happened.
	Duplicates int `json:"duplicates"`
	Premature  int `json:"premature"`
	// Latencies are from the kernel's moment, from when the runtime showed it, and from
	// when it was asked for: those of the three that were observed.
	Latencies []Latency `json:"latencies"`
	// ByLife splits the exits by how long the container could be listed, and the starts by
	// how long it ran. Of a start, one that was only inferred counts as missed here.
	ByLife []LifeBin `json:"byLife,omitempty"`
}

// The moments from which latencies count.
const (
	FromKernel  = "kernel"
	FromVisible = "visible"
	FromAsked   = "asked"
)

// Latency is how long after a moment an arm told transitions. The quantiles are over
// those that it told; Curve shows what it did not tell as well.
type Latency struct {
	From string `json:"from"` // kernel, visible or asked
	// N were told, of Observed whose moment was observed. Where From is kernel, what was
	// told before it happened is in neither.
	N        int      `json:"n"`
	Observed int      `json:"observed"`
	P50      Estimate `json:"p50"`
	P90      Estimate `json:"p90"`
	P99      Estimate `json:"p99"`
	Max      float64  `json:"max"`
	// Curve is the share of Observed that was told within a time.
	Curve []Point `json:"curve"`
	// Theory is the same as theory has it for an arm that has nothing but a period.
	Theory []Point `json:"theory,omitempty"`
	// Against contrasts it with the reference arm; absent for that arm itself.
	Against *Against `json:"against,omitempty"`
}

// Estimate is a figure with its interval, which is absent where the data are too few.
type Estimate struct {
	Value    float64         `json:"value"`
	Interval *stats.Interval `json:"interval,omitempty"`
}

// Point is a point of a curve: X in seconds.
type Point struct {
	X float64 `json:"x"`
	Y float64 `json:"y"`
}

// Against contrasts an arm with the reference.
type Against struct {
	// Paired: over the N transitions that both told. Otherwise the arms ran one after
	// another, and N is the smaller number.
	Paired bool `json:"paired"`
	N      int  `json:"n"`
	// OnlyThis and OnlyReference count what one of the two told alone; paired only.
	OnlyThis      int `json:"onlyThis"`
	OnlyReference int `json:"onlyReference"`
	// Difference is the median of the differences, this arm less the reference; of arms
	// that ran one after another, the difference of the medians.
	Difference Estimate `json:"difference"`
	// Ratio is this arm's median over the reference's; absent where that is not positive.
	Ratio *Estimate `json:"ratio,omitempty"`
}

// LifeBin is what was missed of containers with lives between From and To, in seconds.
type LifeBin struct {
	From     float64        `json:"from"`
	To       float64        `json:"to"`
	Mean     float64        `json:"mean"`
	Of       int            `json:"of"`
	Missed   int            `json:"missed"`
	Share    float64        `json:"share"`
	Interval stats.Interval `json:"interval"`
	// Theory is the share that a generator with nothing but this period must miss.
	Theory *float64 `json:"theory,omitempty"`
}

// Cost is what an arm used up. Each figure is the mean of the repeats, with their
// least and greatest.
type Cost struct {
	Repeats int     `json:"repeats"`
	Seconds float64 `json:"seconds"`
	// CPU is the arm's processor time per second, RuntimeCPU the runtime's. The latter is
	// the arm's doing only if Attributable.
	CPU          Range `json:"cpu"`
	RuntimeCPU   Range `json:"runtimeCPU"`
	Attributable bool  `json:"attributable"`
	// RPCs is calls of the runtime a minute; absent where not known.
	RPCs *Range `json:"rpcsPerMinute,omitempty"`
	// Methods is the same by method.
	Methods map[string]float64 `json:"rpcsPerMinuteByMethod,omitempty"`
	// PeakRSS is the most memory over all repeats, in bytes.
	PeakRSS int64 `json:"peakRSSBytes"`
}

// Total is the processor time per second that is the arm's doing.
func (c *Cost) Total() float64 {
	if c.Attributable {
		return c.CPU.Mean + c.RuntimeCPU.Mean
	}
	return c.CPU.Mean
}

// Range is the mean of the repeats, and the least and greatest.
type Range struct {
	Mean float64 `json:"mean"`
	Min  float64 `json:"min"`
	Max  float64 `json:"max"`
}

// Theory is what the theory of an arm with nothing but a period starts from.
type Theory struct {
	// Period is from the begin of one listing to the begin of the next.
	Period float64 `json:"period"`
	// Counted: the period was counted from the calls. Otherwise it is the plan's pause.
	Counted bool `json:"counted"`
	// Delay is from the begin of a listing to the event, the median.
	Delay float64 `json:"delay"`
	// MissedExits is the share of exits that it must miss.
	MissedExits float64 `json:"missedExits"`
}

// Timeline is what each arm knew of one container, and when. Times are seconds since
// the kernel started it.
type Timeline struct {
	Container string `json:"container"`
	// Why says how the container was picked.
	Why     string   `json:"why"`
	Moments []Moment `json:"moments"`
	Rows    []Row    `json:"rows"`
}

// Moment is when something truly happened.
type Moment struct {
	Text string  `json:"text"`
	At   float64 `json:"at"`
}

// Row is when an arm told what. What it did not tell is absent.
type Row struct {
	Arm     string   `json:"arm"`
	Key     string   `json:"key"`
	Start   *float64 `json:"start,omitempty"`
	Exit    *float64 `json:"exit,omitempty"`
	Removed *float64 `json:"removed,omitempty"`
	// Inferred: the start was told although no listing showed it.
	Inferred bool `json:"inferred,omitempty"`
}

func (f *Figures) kind(name string) *Kind {
	for i := range f.Kinds {
		if f.Kinds[i].Kind == name {
			return &f.Kinds[i]
		}
	}
	return nil
}

func (k *Kind) latency(from string) *Latency {
	if k == nil {
		return nil
	}
	for i := range k.Latencies {
		if k.Latencies[i].From == from {
			return &k.Latencies[i]
		}
	}
	return nil
}
