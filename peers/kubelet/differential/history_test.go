package differential

import (
	"fmt"
	"slices"
	"strings"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// oddity is what may be odd about a thing, from its beginning to its end.
type oddity string

const (
	usual oddity = ""
	// noMetadata: the runtime lists it without metadata.
	noMetadata oddity = "no metadata"
	// noImage: a container is listed without an image.
	noImage oddity = "no image"
	// noLabels: it does not carry the kubelet's labels.
	noLabels oddity = "no labels"
)

// thing is a container or a sandbox as the runtime lists it at one moment.
type thing struct {
	id, pod   string
	sandbox   string // of a container: its sandbox's ID
	name      string // of a container
	attempt   uint32
	createdAt int64
	odd       oddity
	// state is the CRI's, or a number that the CRI does not know.
	state int32
}

// unseen reports whether the kubelet leaves the thing out.
func (t *thing) unseen() bool { return t.odd == noMetadata || t.odd == noImage }

// kubeletPod is the pod that the kubelet counts the thing to: containers by their
// label, which may be missing.
func (t *thing) kubeletPod() string {
	if t.sandbox != "" && t.odd == noLabels {
		return ""
	}
	return t.pod
}

// list names one of the runtime's two lists.
type list string

const (
	noList         list = ""
	sandboxList    list = "sandboxes"
	containersList list = "containers"
)

// step is all that the runtime shows at one relist.
type step struct {
	sandboxes, containers []thing
	// broken is the list that can't be had; noList when both can.
	broken list
	// unreadable are the things whose status can't be read, unknown those of which
	// the runtime says at that moment that there are none.
	unreadable, notFound map[string]bool
}

// history is what a runtime shows at one relist after another.
type history []step

// things returns all that a step shows.
func (s *step) things() []thing { return slices.Concat(s.sandboxes, s.containers) }

// transform returns the history with each list of things replaced.
func (h history) transform(f func(s *step, things []thing) []thing) history {
	out := slices.Clone(h)
	for i := range out {
		s := out[i]
		s.sandboxes, s.containers = f(&h[i], s.sandboxes), f(&h[i], s.containers)
		out[i] = s
	}
	return out
}

// String lists a history for people.
func (h history) String() string {
	var b strings.Builder
	for i := range h {
		s := &h[i]
		fmt.Fprintf(&b, "relist %d", i+1)
		if s.broken != noList {
			fmt.Fprintf(&b, ", the list of %s fails", s.broken)
		}
		b.WriteByte('\n')
		for _, t := range s.sandboxes {
			fmt.Fprintf(&b, "  sandbox %s of %s: %s%s\n", t.id, t.pod, runtimeapi.PodSandboxState(t.state), s.remark(&t))
		}
		for _, t := range s.containers {
			fmt.Fprintf(&b, "  container %s in %s of %s: %s%s\n", t.id, t.sandbox, t.pod, runtimeapi.ContainerState(t.state), s.remark(&t))
		}
	}
	return b.String()
}

func (s *step) remark(t *thing) string {
	var remarks []string
	if t.odd != usual {
		remarks = append(remarks, string(t.odd))
	}
	if s.unreadable[t.id] {
		remarks = append(remarks, "status can't be read")
	}
	if s.notFound[t.id] {
		remarks = append(remarks, "status not found")
	}
	if len(remarks) == 0 {
		return ""
	}
	return " (" + strings.Join(remarks, ", ") + ")"
}
