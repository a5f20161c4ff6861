package plan

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// key is one setting of a T: how it is called, read and written. One table serves the
// file, the flags, and the plan that is written beside the results.
type key[T any] struct {
	name, help string
	set        func(*T, string) error
	get        func(*T) string
}

// planKeys are the settings of a plan besides its arms and workloads.
func planKeys() []key[Plan] {
	return []key[Plan]{
		{"name", "what the experiment is called",
			func(p *Plan, s string) error { return word(&p.Name, s) },
			func(p *Plan) string { return p.Name }},
		{"seed", "makes arrivals and lifetimes repeatable",
			func(p *Plan, s string) (err error) {
				if p.Seed, err = strconv.ParseUint(s, 10, 64); err != nil {
					err = fmt.Errorf("%q is no whole number from 0 to 2^64-1", s)
				}
				return err
			},
			func(p *Plan) string { return strconv.FormatUint(p.Seed, 10) }},
		{"repeats", "how often all of it is done",
			func(p *Plan, s string) error { return number(&p.Repeats, s, 1, 1000) },
			func(p *Plan) string { return strconv.Itoa(p.Repeats) }},
		{"sequential", "run the arms one after another, each with the whole workload",
			func(p *Plan, s string) error { return boolean(&p.Sequential, s) },
			func(p *Plan) string { return strconv.FormatBool(p.Sequential) }},
		{"warm-up", "how long a workload goes on before anything counts",
			func(p *Plan, s string) error { return duration(&p.WarmUp, s, 0, time.Hour) },
			func(p *Plan) string { return p.WarmUp.String() }},
		{"settle", "how long to wait for arms after the last change; 0s: the longest period and 2s more",
			func(p *Plan, s string) error { return duration(&p.Settle, s, 0, time.Hour) },
			func(p *Plan) string { return p.Settle.String() }},
		{"state-lag", `how late the embedded runtime shows states: realistic, none, or "start 1ms-5ms, exit 5ms-40ms, event 1ms"`,
			func(p *Plan, s string) (err error) { p.StateLag, err = ParseLag(s); return err },
			func(p *Plan) string { return p.StateLag.String() }},
	}
}

func armKeys() []key[Arm] {
	return []key[Arm]{
		{"name", "what the arm is called in the results",
			func(a *Arm, s string) error { return word(&a.Name, s) },
			func(a *Arm) string { return a.Name }},
		{"kind", strings.Join(Kinds(), ", "),
			func(a *Arm, s string) error { return oneOf(&a.Kind, s, Kinds()...) },
			func(a *Arm) string { return a.Kind }},
		{"triggers", "of a hybrid arm: some of cgroup, ebpf, cri; or none",
			func(a *Arm, s string) error { return triggers(&a.Triggers, s) },
			func(a *Arm) string {
				if a.Kind == Hybrid && len(a.Triggers) == 0 {
					return "none"
				}
				return strings.Join(a.Triggers, ",")
			}},
		{"period", "pause between relists of everything",
			func(a *Arm, s string) error { return duration(&a.Period, s, 10*time.Millisecond, time.Hour) },
			func(a *Arm) string { return some(a.Period) }},
		{"period-degraded", "the same while a trigger is down",
			func(a *Arm, s string) error { return duration(&a.PeriodDegraded, s, 10*time.Millisecond, time.Hour) },
			func(a *Arm) string { return some(a.PeriodDegraded) }},
		{"optional", "leave the arm out where it can't be had",
			func(a *Arm, s string) error { return boolean(&a.Optional, s) },
			func(a *Arm) string {
				if a.Optional {
					return "true"
				}
				return ""
			}},
	}
}

func workloadKeys() []key[Workload] {
	return []key[Workload]{
		{"name", "what the workload is called in the results",
			func(w *Workload, s string) error { return word(&w.Name, s) },
			func(w *Workload) string { return w.Name }},
		{"background", "containers that run all the time",
			func(w *Workload, s string) error { return number(&w.Background, s, 0, 1e6) },
			func(w *Workload) string { return strconv.Itoa(w.Background) }},
		{"per-pod", "how many background containers share a pod",
			func(w *Workload, s string) error { return number(&w.PerPod, s, 1, 1000) },
			func(w *Workload) string { return strconv.Itoa(w.PerPod) }},
		{"arrivals", `when containers are started: none, "poisson 2/s", "fixed 2/s", "burst 50 every 20s"`,
			func(w *Workload, s string) (err error) { w.Arrivals, err = ParseArrivals(s); return err },
			func(w *Workload) string { return w.Arrivals.String() }},
		{"lifetime", `how long they run: "fixed 1s", "uniform 0s 50ms", "exponential 5s max 1m", "file PATH"`,
			func(w *Workload, s string) (err error) { w.Lifetime, err = ParseLifetime(s); return err },
			func(w *Workload) string { return w.Lifetime.String() }},
		{"removal-delay", "from a container's end to its removal",
			func(w *Workload, s string) error { return duration(&w.RemovalDelay, s, 0, time.Hour) },
			func(w *Workload) string { return w.RemovalDelay.String() }},
		{"end", "exit: containers end by themselves; stop: they are killed",
			func(w *Workload, s string) error { return oneOf(&w.End, s, EndExit, EndStop) },
			func(w *Workload) string { return w.End }},
		{"churn", "containers come and go in pods that stay, or whole pods do: containers, pods",
			func(w *Workload, s string) error { return oneOf(&w.Churn, s, ChurnContainers, ChurnPods) },
			func(w *Workload) string { return w.Churn }},
		{"pods", "how many pods containers come and go in",
			func(w *Workload, s string) error { return number(&w.Pods, s, 1, 10000) },
			func(w *Workload) string { return strconv.Itoa(w.Pods) }},
		{"duration", "how long the part that counts goes on",
			func(w *Workload, s string) error { return duration(&w.Duration, s, 0, 30*24*time.Hour) },
			func(w *Workload) string { return some(w.Duration) }},
		{"count", "how many containers to start in it",
			func(w *Workload, s string) error { return number(&w.Count, s, 0, 1e7) },
			func(w *Workload) string {
				if w.Count == 0 {
					return ""
				}
				return strconv.Itoa(w.Count)
			}},
		{"parallel", "how many containers may be under way at a time",
			func(w *Workload, s string) error { return number(&w.Parallel, s, 1, 10000) },
			func(w *Workload) string { return strconv.Itoa(w.Parallel) }},
	}
}

func names[T any](keys []key[T]) []string {
	out := make([]string, len(keys))
	for i, k := range keys {
		out[i] = k.name
	}
	return out
}

func word(to *string, s string) error {
	if s == "" || len(s) > 60 || strings.IndexFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '/' }) >= 0 {
		return fmt.Errorf("%q is no name: give up to 60 characters without blanks and slashes", s)
	}
	*to = s
	return nil
}

func number(to *int, s string, least, most int) error {
	n, err := strconv.Atoi(s)
	switch {
	case errors.Is(err, strconv.ErrSyntax):
		return fmt.Errorf("%q is no whole number", s)
	case err != nil || n < least || n > most:
		return fmt.Errorf("%s is not from %d to %d", s, least, most)
	}
	*to = n
	return nil
}

func boolean(to *bool, s string) error {
	b, err := strconv.ParseBool(s)
	if err != nil {
		return fmt.Errorf("%q is neither true nor false", s)
	}
	*to = b
	return nil
}

func duration(to *time.Duration, s string, least, most time.Duration) error {
	d, err := time.ParseDuration(s)
	switch {
	case err != nil:
		return fmt.Errorf("%q is no duration such as 300ms or 10s", s)
	case d < 0:
		return fmt.Errorf("the duration %s is negative", s)
	case d < least || d > most:
		return fmt.Errorf("the duration %s is not from %s to %s", s, least, most)
	}
	*to = d
	return nil
}

func oneOf(to *string, s string, words ...string) error {
	if !slices.Contains(words, s) {
		return fmt.Errorf("%q is none of %s", s, strings.Join(words, ", "))
	}
	*to = s
	return nil
}

// allTriggers are those of hybrid-pleg run.
func allTriggers() []string { return []string{"cgroup", "ebpf", "cri"} }

func triggers(to *[]string, s string) error {
	*to = nil
	if s == "none" {
		return nil
	}
	for name := range strings.SplitSeq(s, ",") {
		name = strings.TrimSpace(name)
		if !slices.Contains(allTriggers(), name) || slices.Contains(*to, name) {
			return fmt.Errorf("triggers %q: give some of %s, or none", s, strings.Join(allTriggers(), ", "))
		}
		*to = append(*to, name)
	}
	return nil
}

// some is a duration as text, or nothing for none.
func some(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}
