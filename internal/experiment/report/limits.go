package report

import (
	"fmt"

	"github.com/hybrid-pleg/hybrid-pleg/internal/experiment/result"
)

// limits says how it was measured and what that can't show: only what applies to this
// run.
func limits(s *Summary) []string {
	var said []string
	add := func(format string, a ...any) { said = append(said, fmt.Sprintf(format, a...)) }
	run := &s.Run

	switch run.Truth.Kernel {
	case result.FromNone, "":
		add("There are no kernel times: nothing recorded when processes really started and ended. Latencies count from when the runtime showed a state or was asked, and leave out the runtime's own delay.")
	case result.FromEBPF:
		add("Start and exit times come from an eBPF recorder of its own, which no arm shares.")
	case result.FromEmbedded:
		add("The runtime was the embedded one: containers are entries in memory, and the true times are its own. It shows how generators work, not how fast a real runtime is.")
	default:
		add("Start and exit times come from %s.", run.Truth.Kernel)
	}
	if run.Truth.Kernel != result.FromNone && run.Truth.Kernel != "" {
		switch {
		case run.Truth.Lost > 0:
			add("The recorder lost %s. Transitions without a true time are counted as told or missed, but have no latency.", plural(int(run.Truth.Lost), "record", "records"))
		case run.Truth.Lost < 0:
			add("Whether the recorder lost records could not be known.")
		}
	}
	switch run.Truth.Visible {
	case result.FromEvents:
		add("When the runtime showed a state is told by its event stream, which may itself be some milliseconds late: a latency from there can be negative.")
	case result.FromNone, "":
		add("When the runtime showed a state was not observed: latencies include its delay.")
	}
	if run.Runtime.StateLag != "" {
		add("The embedded runtime was told to show states late: %s.", run.Runtime.StateLag)
	}
	if run.Sequential {
		add("The arms ran one after another, each with a workload of its own: what a runtime used in that time is charged to the arm, and differences between arms are of independent samples, not paired.")
	} else {
		add("The arms ran side by side on the same containers. So differences between them are paired; but each slows the others, and what the runtime used can't be divided among them.")
		if n := len(run.Arms); run.Host.CPUs > 0 && n > run.Host.CPUs {
			add("%d arms shared %s: latencies include waiting for a processor.", n, plural(run.Host.CPUs, "processor", "processors"))
		}
	}
	if run.Host.Virtual != "" && run.Host.Virtual != "none" {
		add("It ran on a virtual machine (%s), whose processors others may have used at the same time.", run.Host.Virtual)
	}
	if run.Interrupted {
		add("The experiment was interrupted: it holds what was measured until then.")
	}
	for _, w := range s.Workloads {
		if w.FailedStarts > 0 {
			add("In %s, the runtime refused %s of %s; they are in no figure.", w.Name, plural(w.FailedStarts, "container", "containers"), count(w.Planned))
		}
	}
	add("Quantiles are of the transitions that an arm told (definition 7 of Hyndman and Fan); what it never told is in the missed share beside them, and keeps the curves below 100" + nbsp + "%%. What was told before the kernel did it has no latency from there, and is counted as an error.")
	add("Intervals of latencies are 95"+nbsp+"%% percentile bootstrap intervals from %s resamples with seed %d. Transitions near in time share a listing, so blocks of time are drawn, not transitions: about 40 a workload, each within one repeat and at least as long as the arm's period. With fewer than 8 blocks, or fewer than 3 values beyond a quantile, no interval is given. The maximum never has one.", count(s.Method.Resamples), s.Method.Seed)
	add("Intervals of missed shares are Wilson's. They take containers for independent; where many end within one period, the true interval is wider.")
	for _, w := range s.Workloads {
		if hasTheory(&w) {
			add("Theory, drawn where an arm has nothing but a period: a listing falls anywhere in the period, which counts from the begin of one listing to the begin of the next; so latencies are uniform over the period, and of containers listed for less than it a share of 1 − time listed ÷ period is missed.")
			break
		}
	}
	return append(said, run.Notes...)
}

func hasTheory(w *Workload) bool {
	for i := range w.Arms {
		if w.Arms[i].Theory != nil {
			return true
		}
	}
	return false
}
