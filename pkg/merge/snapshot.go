package merge

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
)

// Snapshot is the state of all pods as told by the events up to Token. It may be
// shared: read it, don't write to it.
type Snapshot struct {
	Token Token
	// Pods is in the order of namespace, name, UID; a pod's sandboxes and
	// containers are in the order of their making, then of their IDs.
	Pods []event.PodStatus
}

// extract is a copy of the model, made quickly while the log stands still, for
// [extract.pods] to work on afterwards.
type extract struct {
	names []event.Pod
	ends  []int  // where in items a pod's end
	items []item // pod after pod
}

// newExtract allocates ahead, so that the log need not stand still for that.
func newExtract(pods, items int) extract {
	return extract{
		names: make([]event.Pod, 0, pods),
		ends:  make([]int, 0, pods),
		items: make([]item, 0, items),
	}
}

func (x *extract) fill(m *model) {
	for _, p := range m.pods {
		x.names = append(x.names, p.name)
		for _, it := range p.items {
			x.items = append(x.items, *it)
		}
		x.ends = append(x.ends, len(x.items))
	}
}

func (x *extract) pods() []event.PodStatus {
	pods := make([]event.PodStatus, len(x.names))
	begin := 0
	for i, end := range x.ends {
		pods[i] = podStatus(x.names[i], x.items[begin:end])
		begin = end
	}
	slices.SortFunc(pods, func(a, b event.PodStatus) int {
		return cmp.Or(
			strings.Compare(a.Pod.Namespace, b.Pod.Namespace),
			strings.Compare(a.Pod.Name, b.Pod.Name),
			strings.Compare(a.Pod.UID, b.Pod.UID),
		)
	})
	return pods
}

// podStatus allocates for each pod by itself, so that keeping one pod of a
// snapshot does not keep the others in memory.
func podStatus(name event.Pod, items []item) event.PodStatus {
	slices.SortFunc(items, func(a, b item) int {
		return cmp.Or(cmp.Compare(a.createdAt, b.createdAt), strings.Compare(a.id(), b.id()))
	})
	containers := 0
	for i := range items {
		if items[i].container != nil {
			containers++
		}
	}
	status := event.PodStatus{Pod: name}
	if containers > 0 {
		status.Containers = make([]event.ContainerStatus, 0, containers)
	}
	if containers < len(items) {
		status.Sandboxes = make([]event.SandboxStatus, 0, len(items)-containers)
	}
	for i := range items {
		it := &items[i]
		if it.container == nil {
			status.Sandboxes = append(status.Sandboxes, event.SandboxStatus{
				Sandbox:   *it.sandbox,
				State:     it.seen.event(),
				CreatedAt: it.created(),
			})
			continue
		}
		c := event.ContainerStatus{
			Container: *it.container,
			State:     it.seen.event(),
			CreatedAt: it.created(),
			Status:    it.status,
		}
		if it.sandbox != nil {
			c.SandboxID = it.sandbox.ID
		}
		status.Containers = append(status.Containers, c)
	}
	return status
}

func (it *item) id() string {
	if it.container != nil {
		return it.container.ID
	}
	return it.sandbox.ID
}

func (it *item) created() time.Time {
	if it.createdAt == 0 {
		return time.Time{}
	}
	return time.Unix(0, it.createdAt).UTC()
}
