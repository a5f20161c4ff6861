package report

import (
	"html/template"
	"strings"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/internal/experiment/result"
)

// functions are what the template calls: how figures are written, and how they are
// found.
func functions(s *Summary) template.FuncMap {
	return template.FuncMap{
		"duration": Duration, "span": Span, "share": Share, "shares": shares, "signed": signed,
		"count": count, "digits": Digits, "mebibytes": Mebibytes, "since": since, "describe": describe,
		"text": func(s string) string {
			if s == "" {
				return "not known"
			}
			return s
		},
		"utc":    func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") },
		"lasted": func() string { return short(s.Run.Ended.Sub(s.Run.Began).Round(time.Second)) },
		"spreadShares": func(r Range, repeats int) string {
			return strings.Replace(spread(r, repeats, Share), nbsp+"% to", " to", 1)
		},
		"spreadDigits": func(r Range, repeats int) string { return spread(r, repeats, Digits) },
		"noun": func(kind string) string {
			return map[string]string{result.Start: "Starts", result.Exit: "Exits", result.Removed: "Removals"}[kind]
		},
		"key":       func(arm string) armKey { return keyOf(s, armIndex(s, arm)) },
		"best":      func(f Figures, kind string) *Latency { return f.best(kind) },
		"kindOf":    func(f Figures, kind string) *Kind { return f.kind(kind) },
		"latencyOf": func(f Figures, kind, from string) *Latency { return f.kind(kind).latency(from) },
		"kindsOf":   kindsOf, "sourcesOf": sourcesOf, "contrasted": contrasted,
	}
}

// spread writes the least and the greatest of several repeats; one repeat has none.
func spread(r Range, repeats int, write func(float64) string) string {
	if repeats < 2 {
		return ""
	}
	return write(r.Min) + " to " + write(r.Max)
}

// kindsOf returns the kinds of transitions that happened in a workload, exits first:
// they are what is asked about most.
func kindsOf(w *Workload) []string {
	var kinds []string
	for _, kind := range []string{result.Exit, result.Start, result.Removed} {
		for i := range w.Arms {
			if w.Arms[i].kind(kind) != nil {
				kinds = append(kinds, kind)
				break
			}
		}
	}
	return kinds
}

// sourcesOf returns from which moments there are latencies of a kind.
func sourcesOf(w *Workload, kind string) []string {
	var sources []string
	for _, from := range []string{FromKernel, FromVisible, FromAsked} {
		for i := range w.Arms {
			if w.Arms[i].kind(kind).latency(from) != nil {
				sources = append(sources, from)
				break
			}
		}
	}
	return sources
}

func contrasted(w *Workload, kind, from string) bool {
	for i := range w.Arms {
		if l := w.Arms[i].kind(kind).latency(from); l != nil && l.Against != nil {
			return true
		}
	}
	return false
}
