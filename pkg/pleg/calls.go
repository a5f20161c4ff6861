package pleg

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// counted counts the calls of a runtime by method, whatever comes of them; a stream
// is one call. The few that connecting takes are not among them.
type counted struct {
	Runtime
	listSandboxes, listContainers, status, events prometheus.Counter
}

func newCounted(rt Runtime, calls *prometheus.CounterVec) *counted {
	return &counted{
		Runtime:        rt,
		listSandboxes:  calls.WithLabelValues("ListPodSandbox"),
		listContainers: calls.WithLabelValues("ListContainers"),
		status:         calls.WithLabelValues("ContainerStatus"),
		events:         calls.WithLabelValues("GetContainerEvents"),
	}
}

func (c *counted) ListPodSandbox(ctx context.Context, filter *runtimeapi.PodSandboxFilter) ([]*runtimeapi.PodSandbox, error) {
	c.listSandboxes.Inc()
	return c.Runtime.ListPodSandbox(ctx, filter)
}

func (c *counted) ListContainers(ctx context.Context, filter *runtimeapi.ContainerFilter) ([]*runtimeapi.Container, error) {
	c.listContainers.Inc()
	return c.Runtime.ListContainers(ctx, filter)
}

func (c *counted) ContainerStatus(ctx context.Context, id string, verbose bool) (*runtimeapi.ContainerStatusResponse, error) {
	c.status.Inc()
	return c.Runtime.ContainerStatus(ctx, id, verbose)
}

func (c *counted) GetContainerEvents(ctx context.Context, events chan *runtimeapi.ContainerEventResponse,
	established func(runtimeapi.RuntimeService_GetContainerEventsClient)) error {
	c.events.Inc()
	return c.Runtime.GetContainerEvents(ctx, events, established)
}
