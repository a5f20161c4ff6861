package wire

import (
	"time"

	hybridplegv1 "github.com/hybrid-pleg/hybrid-pleg/api/hybridpleg/v1"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// Event returns e as the API's message.
func Event(e *event.Event) *hybridplegv1.Event {
	m := &hybridplegv1.Event{
		Epoch:         e.Epoch,
		Sequence:      e.Sequence,
		Id:            e.ID,
		Type:          Type(e.Type),
		Time:          timestamp(e.Time),
		Pod:           pod(&e.Pod),
		CreatedAt:     timestamp(e.CreatedAt),
		From:          State(e.From),
		To:            State(e.To),
		Status:        status(e.Status),
		StatusMissing: missings.number(e.StatusMissing),
		Detection: &hybridplegv1.Detection{
			FoundBy:    foundBys.number(e.Detection.FoundBy),
			Trigger:    e.Detection.Trigger,
			SignalAt:   timestamp(e.Detection.SignalAt),
			ObservedAt: timestamp(e.Detection.ObservedAt),
		},
		Inferred: e.Inferred,
	}
	if e.Sandbox != nil {
		m.Sandbox = sandbox(e.Sandbox)
	}
	if e.Container != nil {
		m.Container = container(e.Container)
	}
	return m
}

// Pod returns p as the API's message.
func Pod(p *event.PodStatus) *hybridplegv1.Pod {
	m := &hybridplegv1.Pod{Pod: pod(&p.Pod)}
	if len(p.Sandboxes) > 0 {
		m.Sandboxes = make([]*hybridplegv1.SandboxState, len(p.Sandboxes))
	}
	for i := range p.Sandboxes {
		s := &p.Sandboxes[i]
		m.Sandboxes[i] = &hybridplegv1.SandboxState{
			Sandbox:   sandbox(&s.Sandbox),
			State:     State(s.State),
			CreatedAt: timestamp(s.CreatedAt),
		}
	}
	if len(p.Containers) > 0 {
		m.Containers = make([]*hybridplegv1.ContainerState, len(p.Containers))
	}
	for i := range p.Containers {
		c := &p.Containers[i]
		m.Containers[i] = &hybridplegv1.ContainerState{
			Container: container(&c.Container),
			SandboxId: c.SandboxID,
			State:     State(c.State),
			CreatedAt: timestamp(c.CreatedAt),
			Status:    status(c.Status),
		}
	}
	return m
}

func pod(p *event.Pod) *hybridplegv1.PodRef {
	return &hybridplegv1.PodRef{Uid: p.UID, Namespace: p.Namespace, Name: p.Name}
}

func sandbox(s *event.Sandbox) *hybridplegv1.Sandbox {
	return &hybridplegv1.Sandbox{Id: s.ID, Attempt: s.Attempt, Labels: s.Labels, Annotations: s.Annotations}
}

func container(c *event.Container) *hybridplegv1.Container {
	return &hybridplegv1.Container{Id: c.ID, Name: c.Name, Attempt: c.Attempt, Image: c.Image}
}

func status(s *event.Status) *hybridplegv1.Status {
	if s == nil {
		return nil
	}
	return &hybridplegv1.Status{
		StartedAt:  timestamp(s.StartedAt),
		FinishedAt: timestamp(s.FinishedAt),
		ExitCode:   s.ExitCode,
		Reason:     s.Reason,
		Message:    s.Message,
		Pid:        int64(s.Pid),
		CgroupPath: s.CgroupPath,
		CgroupId:   s.CgroupID,
	}
}

func timestamp(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}
