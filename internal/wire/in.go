package wire

import (
	"errors"
	"fmt"
	"time"

	hybridplegv1 "github.com/hybrid-pleg/hybrid-pleg/api/hybridpleg/v1"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// ErrMalformed marks the error for a message that no server of this API sends.
var ErrMalformed = errors.New("malformed message")

// ToEvent returns the event that m carries. The error wraps [ErrUnknownType] for an
// event of a newer server's, which is to be skipped, or [ErrMalformed].
func ToEvent(m *hybridplegv1.Event) (event.Event, error) {
	if m.GetEpoch() == "" || m.GetSequence() == 0 || m.GetId() == "" || m.GetPod().GetUid() == "" {
		return event.Event{}, fmt.Errorf("%w: an event without epoch, sequence, ID or pod UID", ErrMalformed)
	}
	kind, err := ToType(m.GetType())
	if err != nil {
		return event.Event{}, fmt.Errorf("event %s-%d: %w", m.GetEpoch(), m.GetSequence(), err)
	}
	var times clock
	d := m.GetDetection()
	e := event.Event{
		Epoch:         m.GetEpoch(),
		Sequence:      m.GetSequence(),
		ID:            m.GetId(),
		Type:          kind,
		Time:          times.read(m.GetTime()),
		Pod:           toPodRef(m.GetPod()),
		CreatedAt:     times.read(m.GetCreatedAt()),
		From:          ToState(m.GetFrom()),
		To:            ToState(m.GetTo()),
		Status:        times.status(m.GetStatus()),
		StatusMissing: missings.word(m.GetStatusMissing()),
		Detection: event.Detection{
			FoundBy:    foundBys.word(d.GetFoundBy()),
			Trigger:    d.GetTrigger(),
			SignalAt:   times.read(d.GetSignalAt()),
			ObservedAt: times.read(d.GetObservedAt()),
		},
		Inferred: m.GetInferred(),
	}
	if s := m.GetSandbox(); s != nil {
		named := toSandbox(s)
		e.Sandbox = &named
	}
	if c := m.GetContainer(); c != nil {
		named := toContainer(c)
		e.Container = &named
	}
	if times.err != nil {
		return event.Event{}, fmt.Errorf("event %s-%d: %w: %w", e.Epoch, e.Sequence, ErrMalformed, times.err)
	}
	return e, nil
}

// ToPod returns the pod that m carries. The error wraps [ErrMalformed].
func ToPod(m *hybridplegv1.Pod) (event.PodStatus, error) {
	if m.GetPod().GetUid() == "" {
		return event.PodStatus{}, fmt.Errorf("%w: a pod without UID", ErrMalformed)
	}
	var times clock
	p := event.PodStatus{Pod: toPodRef(m.GetPod())}
	if n := len(m.GetSandboxes()); n > 0 {
		p.Sandboxes = make([]event.SandboxStatus, n)
	}
	for i, s := range m.GetSandboxes() {
		p.Sandboxes[i] = event.SandboxStatus{
			Sandbox:   toSandbox(s.GetSandbox()),
			State:     ToState(s.GetState()),
			CreatedAt: times.read(s.GetCreatedAt()),
		}
	}
	if n := len(m.GetContainers()); n > 0 {
		p.Containers = make([]event.ContainerStatus, n)
	}
	for i, c := range m.GetContainers() {
		p.Containers[i] = event.ContainerStatus{
			Container: toContainer(c.GetContainer()),
			SandboxID: c.GetSandboxId(),
			State:     ToState(c.GetState()),
			CreatedAt: times.read(c.GetCreatedAt()),
			Status:    times.status(c.GetStatus()),
		}
	}
	if times.err != nil {
		return event.PodStatus{}, fmt.Errorf("pod %s: %w: %w", p.Pod.UID, ErrMalformed, times.err)
	}
	return p, nil
}

func toPodRef(p *hybridplegv1.PodRef) event.Pod {
	return event.Pod{UID: p.GetUid(), Namespace: p.GetNamespace(), Name: p.GetName()}
}

func toSandbox(s *hybridplegv1.Sandbox) event.Sandbox {
	return event.Sandbox{ID: s.GetId(), Attempt: s.GetAttempt(), Labels: s.GetLabels(), Annotations: s.GetAnnotations()}
}

func toContainer(c *hybridplegv1.Container) event.Container {
	return event.Container{ID: c.GetId(), Name: c.GetName(), Attempt: c.GetAttempt(), Image: c.GetImage()}
}

// clock reads times and keeps the first that is none.
type clock struct{ err error }

func (c *clock) read(t *timestamppb.Timestamp) time.Time {
	if t == nil {
		return time.Time{}
	}
	if err := t.CheckValid(); err != nil {
		if c.err == nil {
			c.err = err
		}
		return time.Time{}
	}
	return t.AsTime()
}

func (c *clock) status(s *hybridplegv1.Status) *event.Status {
	if s == nil {
		return nil
	}
	return &event.Status{
		StartedAt:  c.read(s.GetStartedAt()),
		FinishedAt: c.read(s.GetFinishedAt()),
		Reason:     s.GetReason(),
		Message:    s.GetMessage(),
		Pid:        int(s.GetPid()),
		CgroupPath: s.GetCgroupPath(),
		CgroupID:   s.GetCgroupId(),
		ExitCode:   s.ExitCode,
	}
}
