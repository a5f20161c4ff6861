package relist

import (
	"maps"
	"unicode/utf8"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// podNames is how many labels the kubelet puts on a sandbox only to name its pod.
const podNames = 3

// namesPod reports whether a label only repeats which pod a sandbox belongs to.
func namesPod(key string) bool {
	return key == labelPodUID || key == labelPodName || key == labelPodNamespace
}

// newSandbox makes the value that the sandbox's record, and all events of its
// containers, share. valid is false if something in it had to be made valid UTF-8.
func (s *Store) newSandbox(sb *runtimeapi.PodSandbox) (out *event.Sandbox, valid bool) {
	out = &event.Sandbox{ID: sb.Id, Attempt: sb.GetMetadata().GetAttempt()}
	valid = true
	text := func(str string) string {
		if utf8.ValidString(str) {
			return str
		}
		valid = false
		return validText(str)
	}
	for k, v := range sb.Labels {
		if namesPod(k) {
			continue
		}
		if out.Labels == nil {
			out.Labels = make(map[string]string, max(1, len(sb.Labels)-podNames))
		}
		// Values too: of the pods of a workload most labels are the same.
		out.Labels[s.texts.share(text(k))] = s.texts.share(text(v))
	}
	if len(sb.Annotations) > 0 {
		out.Annotations = make(map[string]string, len(sb.Annotations))
		for k, v := range sb.Annotations {
			out.Annotations[s.texts.share(text(k))] = text(v)
		}
	}
	return out, valid
}

// relabel takes over the labels and annotations that a listing shows for a sandbox
// that was known before a restart: it may have come without them, or from a program
// that kept fewer. Runtimes do not change them, so that once is enough.
func (s *Store) relabel(rec *record, sb *runtimeapi.PodSandbox) {
	have := rec.sandbox
	if sameLabels(have.Labels, sb.Labels) && maps.Equal(have.Annotations, sb.Annotations) {
		return
	}
	fresh, valid := s.newSandbox(sb)
	if maps.Equal(have.Labels, fresh.Labels) && maps.Equal(have.Annotations, fresh.Annotations) {
		return // they differ only in what is not valid UTF-8
	}
	if !valid {
		s.opts.OnAnomaly(AnomalyInvalidUTF8)
	}
	for _, r := range rec.pod.records {
		if r.home == rec {
			r.sandbox = fresh
		}
	}
	rec.relabelled, rec.pod.dirty = true, true
}

// sameLabels compares the labels that are told with those listed.
func sameLabels(told, listed map[string]string) bool {
	n := 0
	for k, v := range listed {
		if namesPod(k) {
			continue
		}
		if have, ok := told[k]; !ok || have != v {
			return false
		}
		n++
	}
	return n == len(told)
}
