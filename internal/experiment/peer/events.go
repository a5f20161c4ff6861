package peer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Events tells what the runtime's event stream says, until ctx ends or the stream
// does.
func Events(ctx context.Context, o Options) error {
	return run(ctx, o, func(ctx context.Context, p *peer) error { return p.follow(ctx) })
}

func (p *peer) follow(ctx context.Context) error {
	p.calls.WithLabelValues("GetContainerEvents").Inc()
	stream, err := p.rt.GetContainerEvents(ctx, &runtimeapi.GetEventsRequest{})
	if err != nil {
		return fmt.Errorf("the runtime's event stream: %w", err)
	}
	p.up()
	for {
		e, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return errors.New("the runtime ended its event stream; CRI-O needs enable_pod_events = true")
		}
		if err != nil {
			return fmt.Errorf("the runtime's event stream: %w", err)
		}
		if err := p.tellEvent(e, time.Now()); err != nil {
			return err
		}
	}
}

func (p *peer) tellEvent(e *runtimeapi.ContainerEventResponse, now time.Time) error {
	container, sandboxType := typesOf(e.GetContainerEventType())
	s := e.GetPodSandboxStatus()
	pod := event.Pod{UID: s.GetMetadata().GetUid(), Namespace: s.GetMetadata().GetNamespace(), Name: s.GetMetadata().GetName()}
	seen := event.Detection{FoundBy: event.FoundEarly, Trigger: "cri", ObservedAt: now.UTC()}
	var err error
	switch {
	case e.GetContainerId() == s.GetId():
		if sandboxType == "" {
			return nil
		}
		err = p.tell(sandboxType, pod, s.GetId(), nil, seen)
	case container == "":
		return nil
	default:
		c := &event.Container{ID: e.GetContainerId()}
		for _, st := range e.GetContainersStatuses() {
			if st.GetId() == c.ID {
				c.Name, c.Attempt, c.Image = st.GetMetadata().GetName(), st.GetMetadata().GetAttempt(), st.GetImage().GetImage()
			}
		}
		err = p.tell(container, pod, s.GetId(), c, seen)
	}
	if err != nil {
		return err
	}
	return p.out.Flush()
}

// typesOf are the types of event for a container and for a sandbox; empty for none.
func typesOf(t runtimeapi.ContainerEventType) (container, sandbox event.Type) {
	switch t {
	case runtimeapi.ContainerEventType_CONTAINER_CREATED_EVENT:
		return event.ContainerCreated, ""
	case runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT:
		return event.ContainerStarted, event.SandboxStarted
	case runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT:
		return event.ContainerDied, event.SandboxDied
	case runtimeapi.ContainerEventType_CONTAINER_DELETED_EVENT:
		return event.ContainerRemoved, event.SandboxRemoved
	default:
		return "", ""
	}
}
