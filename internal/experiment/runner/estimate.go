package runner

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/internal/experiment/arm"
	"github.com/hybrid-pleg/hybrid-pleg/internal/experiment/plan"
	"github.com/hybrid-pleg/hybrid-pleg/internal/experiment/workload"
)

// How long things take, about, when nothing has been measured yet.
const (
	startRuntime   = 5 * time.Second
	startArms      = 3 * time.Second
	perBackground  = 100 * time.Millisecond // a real runtime
	perEmbedded    = time.Millisecond
	finish         = 5 * time.Second
	removeLastTime = time.Second
)

// passes is how often each workload is played in a repeat: once, or once for each arm
// and once without any.
func (r *Ready) passes() int {
	if r.opts.Plan.Sequential {
		return len(r.opts.Plan.Arms) + 1
	}
	return 1
}

// passTime is how long one pass of a workload takes, and settleTime what of it comes
// after the last container.
func (r *Ready) passTime(s *workload.Schedule, w *plan.Workload) time.Duration {
	return s.WarmUp + s.End() + w.RemovalDelay + removeLastTime + r.opts.Plan.SettleTime() + startArms
}

func (r *Ready) backgroundTime(n int) time.Duration {
	if !r.real() {
		return time.Duration(n) * perEmbedded
	}
	return time.Duration(n) * perBackground
}

// Estimate is how long all of it takes, about.
func (r *Ready) Estimate() time.Duration {
	total := finish
	if r.real() {
		total += startRuntime
	}
	have := 0
	for repeat := range r.opts.Plan.Repeats {
		for i := range r.opts.Plan.Workloads {
			w := &r.opts.Plan.Workloads[i]
			total += r.backgroundTime(max(0, w.Background-have))
			have = w.Background
			total += time.Duration(r.passes()) * r.passTime(r.schedules[scheduleKey{i, repeat}], w)
		}
	}
	return total
}

// Describe says what would be done and for how long.
func (r *Ready) Describe(to io.Writer) error {
	p := r.opts.Plan
	order := "side by side"
	if p.Sequential {
		order = "one after another, after a pass without any"
	}
	fmt.Fprintf(to, "Experiment %s on %s, about %s, results in %s\n", p.Name, r.opts.Runtime, roughly(r.Estimate()), r.opts.Output)
	if !r.real() {
		fmt.Fprintf(to, "States are late by: %s\n", p.StateLag)
	}
	fmt.Fprintf(to, "True times: %s\nSeed %d, %d repeats, warm-up %s, waiting up to %s for arms\n\nArms, %s:\n",
		r.truthInWords(), p.Seed, p.Repeats, p.WarmUp, p.SettleTime(), order)
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	on := arm.Target{}
	if !r.real() {
		on.CgroupRoot = "embedded"
	}
	for i := range p.Arms {
		a := &p.Arms[i]
		what := a.Kind
		if a.Kind == plan.Hybrid {
			what = "triggers " + strings.Join(arm.Triggers(a, on), ",")
			if len(a.Triggers) == 0 {
				what = "no triggers"
			}
		}
		period := "no period"
		if a.Period > 0 {
			period = "every " + a.Period.String()
		}
		fmt.Fprintf(w, "  %s\t%s\t%s\n", a.Name, what, period)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(to, "\nWorkloads:")
	for i := range p.Workloads {
		wl := &p.Workloads[i]
		s := r.schedules[scheduleKey{i, 0}]
		fmt.Fprintf(w, "  %s\t%d in the background\t%s\t%d containers\tlifetime %s\t%s a pass\n",
			wl.Name, wl.Background, wl.Arrivals, s.Counted(), wl.Lifetime, roughly(r.passTime(s, wl)))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, n := range r.notes {
		fmt.Fprintf(to, "\nNote: %s\n", n)
	}
	return nil
}

func (r *Ready) truthInWords() string {
	switch {
	case !r.real() && r.opts.Truth != TruthNone:
		return "the embedded runtime's own account"
	case r.opts.Truth == TruthNone:
		return "none of the kernel; when states became visible by the runtime's event stream"
	default:
		return "exec and exit by an eBPF recorder; when states became visible by the runtime's event stream"
	}
}
