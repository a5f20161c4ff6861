package embedded

import (
	"strings"

	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Mangle is a set of ways in which an answer may be damaged.
type Mangle uint

// The ways. They may be combined with |.
const (
	// MangleDrop leaves an item out of a list, or an event out of a stream.
	MangleDrop Mangle = 1 << iota
	// MangleNil puts nil in its place: in a list, as a status; in an event, as the
	// statuses. Over a socket the nil of a list arrives as an empty item.
	MangleNil
	// MangleNilMetadata takes its metadata away.
	MangleNilMetadata
	// MangleDuplicate gives an item or an event twice.
	MangleDuplicate
	// MangleUnknownState gives it a state, an event a type, that the CRI does not
	// have ([StrangeState]).
	MangleUnknownState
	// MangleInvalidUTF8 puts bytes into its name and a label that are not UTF-8.
	// gRPC refuses to send them, and the call fails with Internal.
	MangleInvalidUTF8
	// MangleOversize makes a list's first item larger than the 16 MiB that
	// k8s.io/cri-client accepts as an answer.
	MangleOversize
)

const (
	// StrangeState is the number of a state or event type that no CRI knows.
	StrangeState = 97
	// strangeBytes are an overlong encoding, a surrogate and a lone byte.
	strangeBytes = "\xc0\xaf\xed\xa0\x80\xff"

	maxMessage = 16 << 20
)

type mangle struct {
	id   string
	what Mangle
}

// manglesOf gathers what is meant for one item.
func manglesOf(mangles []mangle, id string) (m Mangle) {
	for _, one := range mangles {
		if one.id == "" || one.id == id {
			m |= one.what
		}
	}
	return m
}

// mangleList damages the items of a list. The list is the caller's, the items
// are shared and never changed.
func mangleList[T proto.Message](list []T, mangles []mangle, id func(T) string, damage func(T, Mangle)) []T {
	if len(mangles) == 0 {
		return list
	}
	var null T
	out := make([]T, 0, len(list)+1)
	for _, item := range list {
		m := manglesOf(mangles, id(item))
		if m&MangleOversize != 0 && len(out) > 0 {
			m &^= MangleOversize
		}
		if m&MangleDrop != 0 {
			continue
		}
		if m&MangleNil != 0 {
			item = null
		} else if m&^MangleDuplicate != 0 {
			item = proto.CloneOf(item)
			damage(item, m)
		}
		out = append(out, item)
		if m&MangleDuplicate != 0 {
			out = append(out, item)
		}
	}
	return out
}

func damageContainer(c *runtimeapi.Container, m Mangle) {
	if m&MangleUnknownState != 0 {
		c.State = StrangeState
	}
	c.Labels = damageLabels(c.Labels, m)
	if m&MangleInvalidUTF8 != 0 {
		c.Metadata.Name += strangeBytes
	}
	if m&MangleNilMetadata != 0 {
		c.Metadata = nil
	}
}

func damageContainerStatus(c *runtimeapi.ContainerStatus, m Mangle) {
	if m&MangleUnknownState != 0 {
		c.State = StrangeState
	}
	c.Labels = damageLabels(c.Labels, m)
	if m&MangleInvalidUTF8 != 0 {
		c.Metadata.Name += strangeBytes
		c.Message += strangeBytes
	}
	if m&MangleNilMetadata != 0 {
		c.Metadata = nil
	}
}

func damageSandbox(s *runtimeapi.PodSandbox, m Mangle) {
	if m&MangleUnknownState != 0 {
		s.State = StrangeState
	}
	s.Labels = damageLabels(s.Labels, m)
	if m&MangleInvalidUTF8 != 0 {
		s.Metadata.Name += strangeBytes
	}
	if m&MangleNilMetadata != 0 {
		s.Metadata = nil
	}
}

func damageSandboxStatus(s *runtimeapi.PodSandboxStatus, m Mangle) {
	if m&MangleUnknownState != 0 {
		s.State = StrangeState
	}
	s.Labels = damageLabels(s.Labels, m)
	if m&MangleInvalidUTF8 != 0 {
		s.Metadata.Name += strangeBytes
	}
	if m&MangleNilMetadata != 0 {
		s.Metadata = nil
	}
}

func damageLabels(labels map[string]string, m Mangle) map[string]string {
	if m&(MangleInvalidUTF8|MangleOversize) != 0 && labels == nil {
		labels = map[string]string{}
	}
	if m&MangleInvalidUTF8 != 0 {
		labels["strange"] = strangeBytes
	}
	if m&MangleOversize != 0 {
		labels["ballast"] = strings.Repeat("x", maxMessage+1)
	}
	return labels
}

// mangleEvent gives the events to send instead of ev: none, one or two.
func mangleEvent(ev *runtimeapi.ContainerEventResponse, mangles []mangle) []*runtimeapi.ContainerEventResponse {
	m := manglesOf(mangles, ev.ContainerId)
	if m == 0 {
		return []*runtimeapi.ContainerEventResponse{ev}
	}
	if m&MangleDrop != 0 {
		return nil
	}
	ev = proto.CloneOf(ev)
	if m&MangleUnknownState != 0 {
		ev.ContainerEventType = StrangeState
	}
	if m&MangleNil != 0 {
		ev.PodSandboxStatus, ev.ContainersStatuses = nil, nil
	}
	if s := ev.PodSandboxStatus; s != nil {
		damageSandboxStatus(s, m&^(MangleUnknownState|MangleOversize))
	}
	if m&MangleDuplicate != 0 {
		return []*runtimeapi.ContainerEventResponse{ev, ev}
	}
	return []*runtimeapi.ContainerEventResponse{ev}
}
