package peer

import (
	"context"
	"fmt"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Poll lists the containers once a period and tells how they differ from before, until
// ctx ends or a list fails. It looks at containers only, and reads no details.
func Poll(ctx context.Context, o Options) error {
	return run(ctx, o, func(ctx context.Context, p *peer) error {
		known := map[string]*runtimeapi.Container{}
		timer := time.NewTimer(0)
		defer timer.Stop()
		for first := true; ; first = false {
			select {
			case <-timer.C:
			case <-ctx.Done():
				return nil
			}
			var err error
			if known, err = p.poll(ctx, known, first); err != nil {
				return err
			}
			p.up()
			timer.Reset(o.Period) // a gap between lists, as relists have
		}
	})
}

func (p *peer) poll(ctx context.Context, before map[string]*runtimeapi.Container, first bool) (map[string]*runtimeapi.Container, error) {
	seen := event.Detection{FoundBy: event.FoundPeriodic, ObservedAt: time.Now().UTC()}
	if first {
		seen.FoundBy = event.FoundStartup
	}
	p.calls.WithLabelValues("ListContainers").Inc()
	list, err := p.rt.ListContainers(ctx, &runtimeapi.ListContainersRequest{})
	if err != nil {
		return nil, fmt.Errorf("list containers: %w", err)
	}
	now := make(map[string]*runtimeapi.Container, len(list.GetContainers()))
	for _, c := range list.GetContainers() {
		now[c.GetId()] = c
		for _, typ := range changes(before[c.GetId()], c) {
			if err := p.tellContainer(typ, c, seen); err != nil {
				return nil, err
			}
		}
	}
	for id, c := range before {
		if now[id] != nil {
			continue
		}
		for _, typ := range changes(c, nil) {
			if err := p.tellContainer(typ, c, seen); err != nil {
				return nil, err
			}
		}
	}
	return now, p.out.Flush()
}

// changes are the events from one state to the next; nil is not there.
func changes(from, to *runtimeapi.Container) []event.Type {
	// Each container goes this way; what of it lies between the two is told.
	way := []event.Type{event.ContainerCreated, event.ContainerStarted, event.ContainerDied, event.ContainerRemoved}
	begin, end := 0, len(way)
	if from != nil {
		begin = progress(from)
	}
	if to != nil {
		end = progress(to)
	}
	if end <= begin {
		return nil
	}
	return way[begin:end]
}

// progress is how much of its way a container has gone.
func progress(c *runtimeapi.Container) int {
	switch c.GetState() {
	case runtimeapi.ContainerState_CONTAINER_RUNNING:
		return 2
	case runtimeapi.ContainerState_CONTAINER_EXITED:
		return 3
	default:
		return 1
	}
}

func (p *peer) tellContainer(typ event.Type, c *runtimeapi.Container, seen event.Detection) error {
	labels := c.GetLabels()
	pod := event.Pod{
		UID: labels["io.kubernetes.pod.uid"], Namespace: labels["io.kubernetes.pod.namespace"], Name: labels["io.kubernetes.pod.name"],
	}
	return p.tell(typ, pod, c.GetPodSandboxId(), &event.Container{
		ID: c.GetId(), Name: c.GetMetadata().GetName(), Attempt: c.GetMetadata().GetAttempt(), Image: c.GetImage().GetImage(),
	}, seen)
}
