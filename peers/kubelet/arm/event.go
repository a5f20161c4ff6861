package arm

import (
	"crypto/rand"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/merge"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
	"k8s.io/kubernetes/pkg/kubelet/pleg"
)

// criTrigger is what makes the evented generator look early.
const criTrigger = "cri"

// translator turns what comes out of the generator's channel into events.
type translator struct {
	book  *book
	cache kubecontainer.Cache
	// epoch and sequence number the events.
	epoch    string
	sequence uint64
}

func newTranslator(cache kubecontainer.Cache) *translator {
	return &translator{book: newBook(), cache: cache, epoch: rand.Text()}
}

// event returns the event for e, which came out of the channel at now; nil when e
// is a mark or of a type that the kubelet does not hand on either.
func (t *translator) event(e *pleg.PodLifecycleEvent, now time.Time) *event.Event {
	if o, ok := e.Data.(*observation); ok {
		t.book.note(o)
		return nil
	}
	out := &event.Event{
		Epoch: t.epoch, Sequence: t.sequence + 1, Time: now.UTC(),
		Detection: event.Detection{FoundBy: t.book.last.foundBy, ObservedAt: t.book.last.at.UTC()},
	}
	if out.Detection.FoundBy == event.FoundEarly {
		out.Detection.Trigger = criTrigger
	}
	if e.Type == pleg.PodSync {
		out.Type, out.Pod = event.PodSync, t.book.pod(e.ID)
		out.ID = out.Pod.UID + "/PodSync/" + merge.Token{Epoch: t.epoch, Sequence: out.Sequence}.String()
		t.sequence++
		return out
	}
	id, ok := e.Data.(string)
	if !ok {
		return nil
	}
	it := t.book.find(e.ID, id)
	if out.Type, out.To = typeOf(e.Type, it.container == nil); out.Type == "" {
		return nil
	}
	t.addDetails(out, e, &it)
	out.Pod, out.Sandbox, out.Container, out.CreatedAt = it.pod, it.sandbox, it.container, it.createdAt
	out.ID = id + "/" + string(out.Type)
	if e.Type == pleg.ContainerRemoved {
		delete(t.book.told, id)
	} else {
		t.book.told[id] = it
	}
	t.sequence++
	return out
}

// typeOf gives sandboxes types of their own, which the kubelet tells as containers.
func typeOf(t pleg.PodLifeCycleEventType, sandbox bool) (event.Type, event.State) {
	pick := func(container, ofSandbox event.Type) event.Type {
		if sandbox {
			return ofSandbox
		}
		return container
	}
	switch t {
	case pleg.ContainerStarted:
		return pick(event.ContainerStarted, event.SandboxStarted), event.StateRunning
	case pleg.ContainerDied:
		return pick(event.ContainerDied, event.SandboxDied), event.StateExited
	case pleg.ContainerRemoved:
		return pick(event.ContainerRemoved, event.SandboxRemoved), event.StateNonExistent
	default:
		return "", ""
	}
}

// addDetails adds what the generator's cache says of the event's item. The cache is
// written before the events are sent; it may be ahead of them.
func (t *translator) addDetails(out *event.Event, e *pleg.PodLifecycleEvent, it *item) {
	pod, err := t.cache.Get(e.ID)
	if err != nil || pod == nil {
		pod = &kubecontainer.PodStatus{}
	}
	for _, s := range pod.SandboxStatuses {
		if it.sandbox != nil && s.GetId() == it.sandbox.ID {
			it.sandbox = &event.Sandbox{ID: s.GetId(), Attempt: s.GetMetadata().GetAttempt()}
		}
	}
	if it.container == nil {
		return
	}
	var status *kubecontainer.Status
	for _, s := range pod.ContainerStatuses {
		if s.ID.ID == it.container.ID {
			status = s
		}
	}
	if status != nil {
		c := *it.container
		c.Attempt = uint32(status.RestartCount) // from the kubelet's annotation
		it.container = &c
	}
	if e.Type == pleg.ContainerRemoved {
		return
	}
	if out.Status = details(status, e.Type == pleg.ContainerDied); out.Status == nil {
		out.StatusMissing = event.StatusGone
	}
}

// details returns nil when status does not show the end that it should.
func details(status *kubecontainer.Status, ended bool) *event.Status {
	switch {
	case status == nil, ended && status.State != kubecontainer.ContainerStateExited:
		return nil
	case !ended:
		return &event.Status{StartedAt: known(status.StartedAt)}
	}
	code := int32(status.ExitCode)
	return &event.Status{
		StartedAt:  known(status.StartedAt),
		FinishedAt: known(status.FinishedAt),
		ExitCode:   &code,
		Reason:     status.Reason,
		Message:    status.Message,
	}
}

// known leaves out what the kubelet makes of a time that the runtime did not set.
func known(at time.Time) time.Time {
	if at.UnixNano() <= 0 {
		return time.Time{}
	}
	return at.UTC()
}
