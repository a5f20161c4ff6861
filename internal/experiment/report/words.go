package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/hybrid-pleg/hybrid-pleg/internal/experiment/result"
)

// since says in words from when a latency counts.
func since(from, kind string) string {
	verb := map[string]string{result.Start: "started", result.Exit: "ended", result.Removed: "removed"}[kind]
	switch from {
	case FromKernel:
		return "after the kernel " + verb + " the process"
	case FromVisible:
		return "after the runtime showed it"
	default:
		return "after it was asked for"
	}
}

func named(f *Figures) string { return f.Arm + " (" + f.Key + ")" }

// answers are the findings of a workload in sentences.
func answers(w *Workload, run *result.Run) []string {
	var said []string
	for _, s := range []string{
		speed(w, result.Exit), speed(w, result.Start), missing(w), expense(w), errorsTold(w, run),
	} {
		if s != "" {
			said = append(said, s)
		}
	}
	return said
}

// speed says who told a kind of transition fastest and slowest.
func speed(w *Workload, kind string) string {
	var told []*Figures
	for i := range w.Arms {
		if w.Arms[i].best(kind) != nil {
			told = append(told, &w.Arms[i])
		}
	}
	noun := map[string]string{result.Start: "Starts", result.Exit: "Exits"}[kind]
	if len(told) == 0 {
		if slices.ContainsFunc(w.Arms, func(f Figures) bool { return f.kind(kind) != nil }) {
			return noun + ": no latency could be told, for no arm told any whose moment was observed."
		}
		return ""
	}
	slices.SortStableFunc(told, func(x, y *Figures) int {
		return cmp.Compare(x.best(kind).P50.Value, y.best(kind).P50.Value)
	})
	first := told[0].best(kind)
	s := fmt.Sprintf("%s: %s was fastest, with a median of %s %s", noun, named(told[0]),
		Duration(first.P50.Value), since(first.From, kind))
	if first.P50.Interval != nil {
		s += fmt.Sprintf(" (95%s%% interval %s)", nbsp, Span(first.P50.Interval))
	}
	s += fmt.Sprintf(" and 99%s%% within %s", nbsp, Duration(first.P99.Value))
	if len(told) > 1 {
		last := told[len(told)-1]
		s += fmt.Sprintf("; %s was slowest, with a median of %s", named(last), Duration(last.best(kind).P50.Value))
	}
	if slices.ContainsFunc(told, func(f *Figures) bool { return f.kind(kind).Missed > 0 }) {
		s += ". This is of those that each told; what it missed stands below"
	}
	return s + "."
}

// missing says who never told some exits.
func missing(w *Workload) string {
	var none, some []string
	of, worst := 0, 0.0
	for i := range w.Arms {
		k := w.Arms[i].kind(result.Exit)
		if k == nil {
			continue
		}
		of = max(of, k.Of)
		if k.Missed == 0 {
			none = append(none, named(&w.Arms[i]))
			worst = max(worst, k.MissedInterval.High)
			continue
		}
		some = append(some, fmt.Sprintf("%s %s of %s (%s)", named(&w.Arms[i]), count(k.Missed), count(k.Of), Share(k.MissedShare)))
	}
	var parts []string
	if len(none) > 0 {
		parts = append(parts, fmt.Sprintf("%s missed none of %s exits (at most %s, by the interval)", list(none), count(of), Share(worst)))
	}
	if len(some) > 0 {
		verb := ""
		if len(none) == 0 {
			verb = " exits"
		}
		parts = append(parts, list(some)+verb)
	}
	if len(parts) == 0 {
		return ""
	}
	return "Missed: " + strings.Join(parts, "; ") + "."
}

// expense says who cost least and most.
func expense(w *Workload) string {
	var known []*Figures
	attributable := true
	for i := range w.Arms {
		if c := w.Arms[i].Cost; c != nil {
			known = append(known, &w.Arms[i])
			attributable = attributable && c.Attributable
		}
	}
	if len(known) == 0 {
		return ""
	}
	total := func(f *Figures) float64 {
		if attributable {
			return f.Cost.Total()
		}
		return f.Cost.CPU.Mean
	}
	slices.SortStableFunc(known, func(x, y *Figures) int { return cmp.Compare(total(x), total(y)) })
	what := "the generator alone"
	if attributable {
		what = "generator and runtime"
	}
	say := func(f *Figures) string {
		s := fmt.Sprintf("%s with %s of a processor", named(f), Share(total(f)))
		if f.Cost.RPCs != nil {
			s += fmt.Sprintf(" and %s calls a minute", Digits(f.Cost.RPCs.Mean))
		}
		return s
	}
	if len(known) == 1 {
		return fmt.Sprintf("Cost (%s): %s.", what, say(known[0]))
	}
	return fmt.Sprintf("Cost (%s): least %s; most %s.", what, say(known[0]), say(known[len(known)-1]))
}

// errorsTold says which arms told what is wrong.
func errorsTold(w *Workload, run *result.Run) string {
	var wrong []string
	for i := range w.Arms {
		f := &w.Arms[i]
		duplicates, premature := 0, 0
		for _, k := range f.Kinds {
			duplicates += k.Duplicates
			premature += k.Premature
		}
		var what []string
		if duplicates > 0 {
			what = append(what, count(duplicates)+" more than once")
		}
		if premature > 0 {
			what = append(what, count(premature)+" before it happened")
		}
		if f.FalseEvents > 0 {
			what = append(what, count(f.FalseEvents)+" that never happened")
		}
		if len(what) > 0 {
			wrong = append(wrong, named(f)+" told "+list(what))
		}
	}
	for _, a := range run.Arms {
		if a.Failed != "" {
			wrong = append(wrong, a.Name+" ended before its time: "+a.Failed)
		}
	}
	if len(wrong) == 0 {
		return "Errors: no arm told anything twice, too early, or that never happened."
	}
	return "Errors: " + strings.Join(wrong, "; ") + "."
}
