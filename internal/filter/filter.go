package filter

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	hybridplegv1 "github.com/hybrid-pleg/hybrid-pleg/api/hybridpleg/v1"
	"github.com/hybrid-pleg/hybrid-pleg/internal/wire"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	"k8s.io/apimachinery/pkg/labels"
)

// Bounds of a filter from outside. Kubernetes allows names of up to 253 bytes, and a
// node has at most some hundred pods.
const (
	maxEntries  = 1000 // in each list
	maxName     = 253  // bytes
	maxSelector = 4096 // bytes
)

// Filter picks pods and events. It never changes; the nil Filter picks everything.
type Filter struct {
	namespaces, names, uids set
	selector                labels.Selector // nil: any
	types                   map[event.Type]struct{}
	subject                 Subject
}

type set map[string]struct{}

// has reports whether the set holds s; an empty set holds everything.
func (s set) has(word string) bool {
	if len(s) == 0 {
		return true
	}
	_, ok := s[word]
	return ok
}

// New makes the filter that spec describes; nil for the zero Spec. The error wraps
// [ErrFilter], and says what is wrong.
func New(spec Spec) (*Filter, error) {
	if spec.isZero() {
		return nil, nil
	}
	f := &Filter{}
	var err error
	if f.namespaces, err = newSet("namespaces", spec.Namespaces); err != nil {
		return nil, err
	}
	if f.names, err = newSet("pod names", spec.PodNames); err != nil {
		return nil, err
	}
	if f.uids, err = newSet("pod UIDs", spec.PodUIDs); err != nil {
		return nil, err
	}
	if f.selector, err = parseSelector(spec.LabelSelector); err != nil {
		return nil, err
	}
	if len(spec.Types) > maxEntries {
		return nil, tooMany("types", len(spec.Types))
	}
	for _, t := range spec.Types {
		if wire.Type(t) == hybridplegv1.EventType_EVENT_TYPE_UNSPECIFIED {
			return nil, unknownType(string(t))
		}
		if f.types == nil {
			f.types = make(map[event.Type]struct{})
		}
		f.types[t] = struct{}{}
	}
	if f.subject, err = ParseSubject(string(spec.Subject)); err != nil {
		return nil, err
	}
	return f, nil
}

// Pods reports whether the filter lets a pod of a snapshot through. A selector picks
// a pod that has a sandbox with such labels: after a sandbox was made anew with
// others, the pod counts with both while both are there.
func (f *Filter) Pods(p *event.PodStatus) bool {
	if f == nil {
		return true
	}
	if !f.pod(&p.Pod) {
		return false
	}
	if f.selector == nil {
		return true
	}
	for i := range p.Sandboxes {
		if f.selector.Matches(labels.Set(p.Sandboxes[i].Sandbox.Labels)) {
			return true
		}
	}
	return len(p.Sandboxes) == 0 && f.selector.Matches(labels.Set(nil))
}

// Events reports whether the filter lets an event through.
func (f *Filter) Events(e *event.Event) bool {
	if f == nil {
		return true
	}
	if f.types != nil {
		if _, ok := f.types[e.Type]; !ok {
			return false
		}
	}
	switch f.subject {
	case SubjectContainer:
		if e.Container == nil {
			return false
		}
	case SubjectSandbox:
		if e.Container != nil {
			return false
		}
	}
	if !f.pod(&e.Pod) {
		return false
	}
	if f.selector == nil {
		return true
	}
	var of labels.Set
	if e.Sandbox != nil {
		of = e.Sandbox.Labels
	}
	return f.selector.Matches(of)
}

func (f *Filter) pod(p *event.Pod) bool {
	return f.namespaces.has(p.Namespace) && f.names.has(p.Name) && f.uids.has(p.UID)
}

func newSet(what string, words []string) (set, error) {
	if len(words) == 0 {
		return nil, nil
	}
	if len(words) > maxEntries {
		return nil, tooMany(what, len(words))
	}
	s := make(set, len(words))
	for _, word := range words {
		switch {
		case word == "":
			return nil, fmt.Errorf("%w: %s: one is empty", ErrFilter, what)
		case len(word) > maxName:
			return nil, fmt.Errorf("%w: %s: one has %d bytes, %d are allowed", ErrFilter, what, len(word), maxName)
		case !utf8.ValidString(word) || strings.ContainsFunc(word, unicode.IsControl):
			return nil, fmt.Errorf("%w: %s: %s holds what no name can", ErrFilter, what, quote(word))
		}
		s[word] = struct{}{}
	}
	return s, nil
}

func parseSelector(text string) (labels.Selector, error) {
	if text == "" {
		return nil, nil
	}
	if len(text) > maxSelector {
		return nil, fmt.Errorf("%w: the label selector has %d bytes, %d are allowed", ErrFilter, len(text), maxSelector)
	}
	selector, err := labels.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%w: label selector %s: %w", ErrFilter, quote(text), err)
	}
	if selector.Empty() {
		return nil, nil
	}
	return selector, nil
}

func tooMany(what string, n int) error {
	return fmt.Errorf("%w: %d %s, %d are allowed", ErrFilter, n, what, maxEntries)
}

// quote quotes what somebody sent, no more of it than an error should hold.
func quote(s string) string {
	const most = 100
	if len(s) > most {
		return strconv.Quote(s[:most]) + "…"
	}
	return strconv.Quote(s)
}
