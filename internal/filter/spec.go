package filter

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	hybridplegv1 "github.com/hybrid-pleg/hybrid-pleg/api/hybridpleg/v1"
	"github.com/hybrid-pleg/hybrid-pleg/internal/wire"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
)

// ErrFilter marks the error for a filter that can't be one.
var ErrFilter = errors.New("bad filter")

// Subject is what events are about.
type Subject string

// The subjects. A PodSync is about its container; one without is about its sandbox.
const (
	SubjectAll       Subject = ""
	SubjectContainer Subject = "container"
	SubjectSandbox   Subject = "sandbox"
)

// Spec says what to pick. What is set must all hold; of a list any one. The zero
// value picks everything.
type Spec struct {
	Namespaces []string
	PodNames   []string
	PodUIDs    []string
	// LabelSelector is in Kubernetes' syntax, such as "app=web,tier!=cache". It
	// applies to the labels of the sandbox.
	LabelSelector string
	// Types and Subject pick events, not pods.
	Types   []event.Type
	Subject Subject
}

// ParseTypes returns the types that words name. The error wraps [ErrFilter] and says
// which types there are.
func ParseTypes(words []string) ([]event.Type, error) {
	if len(words) == 0 {
		return nil, nil
	}
	out := make([]event.Type, len(words))
	for i, word := range words {
		out[i] = event.Type(word)
		if wire.Type(out[i]) == hybridplegv1.EventType_EVENT_TYPE_UNSPECIFIED {
			return nil, unknownType(word)
		}
	}
	return out, nil
}

func unknownType(word string) error {
	names := make([]string, 0, len(event.Types()))
	for _, t := range event.Types() {
		names = append(names, string(t))
	}
	return fmt.Errorf("%w: there is no event type %s: give some of %s", ErrFilter, quote(word), strings.Join(names, ", "))
}

// ParseSubject returns the subject that a word names; empty for everything. The
// error wraps [ErrFilter].
func ParseSubject(word string) (Subject, error) {
	switch s := Subject(word); s {
	case SubjectAll, SubjectContainer, SubjectSandbox:
		return s, nil
	}
	return "", fmt.Errorf("%w: there is no subject %s: give container or sandbox, or leave it out for both", ErrFilter, quote(word))
}

// QueryKeys are the URL parameters that [FromQuery] reads.
func QueryKeys() []string {
	return []string{"namespace", "pod", "uid", "selector", "type", "subject"}
}

// FromQuery reads the parameters of a URL that are named in [QueryKeys]. Those that
// list may be given several times, or separated by commas. The error wraps
// [ErrFilter].
func FromQuery(q url.Values) (Spec, error) {
	spec := Spec{
		Namespaces: split(q["namespace"]),
		PodNames:   split(q["pod"]),
		PodUIDs:    split(q["uid"]),
		// All must hold, as in one selector.
		LabelSelector: strings.Join(q["selector"], ","),
	}
	var err error
	if spec.Types, err = ParseTypes(split(q["type"])); err != nil {
		return Spec{}, err
	}
	if len(q["subject"]) > 1 {
		return Spec{}, fmt.Errorf("%w: subject is given more than once", ErrFilter)
	}
	if spec.Subject, err = ParseSubject(q.Get("subject")); err != nil {
		return Spec{}, err
	}
	return spec, nil
}

func split(values []string) []string {
	var out []string
	for _, v := range values {
		for word := range strings.SplitSeq(v, ",") {
			if len(out) > maxEntries {
				return out // New refuses it
			}
			out = append(out, word)
		}
	}
	return out
}

// FromProto reads the API's message; nil picks everything. The error wraps
// [ErrFilter].
func FromProto(m *hybridplegv1.Filter) (Spec, error) {
	spec := Spec{
		Namespaces:    m.GetNamespaces(),
		PodNames:      m.GetPodNames(),
		PodUIDs:       m.GetPodUids(),
		LabelSelector: m.GetLabelSelector(),
	}
	if n := len(m.GetTypes()); n > maxEntries {
		return Spec{}, tooMany("types", n)
	}
	for _, number := range m.GetTypes() {
		t, err := wire.ToType(number)
		if err != nil {
			return Spec{}, fmt.Errorf("%w: types: %w", ErrFilter, err)
		}
		spec.Types = append(spec.Types, t)
	}
	switch m.GetSubject() {
	case hybridplegv1.Subject_SUBJECT_UNSPECIFIED:
	case hybridplegv1.Subject_SUBJECT_CONTAINER:
		spec.Subject = SubjectContainer
	case hybridplegv1.Subject_SUBJECT_SANDBOX:
		spec.Subject = SubjectSandbox
	default:
		return Spec{}, fmt.Errorf("%w: there is no subject with the number %d", ErrFilter, m.GetSubject())
	}
	return spec, nil
}

// Proto returns the API's message; nil for the zero Spec. It is for a Spec that
// [New] took.
func (s Spec) Proto() *hybridplegv1.Filter {
	if s.isZero() {
		return nil
	}
	m := &hybridplegv1.Filter{
		Namespaces:    s.Namespaces,
		PodNames:      s.PodNames,
		PodUids:       s.PodUIDs,
		LabelSelector: s.LabelSelector,
	}
	for _, t := range s.Types {
		m.Types = append(m.Types, wire.Type(t))
	}
	switch s.Subject {
	case SubjectAll:
	case SubjectContainer:
		m.Subject = hybridplegv1.Subject_SUBJECT_CONTAINER
	case SubjectSandbox:
		m.Subject = hybridplegv1.Subject_SUBJECT_SANDBOX
	}
	return m
}

func (s Spec) isZero() bool {
	return len(s.Namespaces) == 0 && len(s.PodNames) == 0 && len(s.PodUIDs) == 0 &&
		s.LabelSelector == "" && len(s.Types) == 0 && s.Subject == SubjectAll
}
