package embedded

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// listPart is how many items one message of a streamed list holds.
const listPart = 500

// CreateContainer is the CRI's.
func (r *Runtime) CreateContainer(ctx context.Context, req *runtimeapi.CreateContainerRequest) (*runtimeapi.CreateContainerResponse, error) {
	return call(ctx, r, "CreateContainer", r.fullIDs(req.PodSandboxId), func([]mangle) (*runtimeapi.CreateContainerResponse, error) {
		id, err := r.Create(ctx, req.PodSandboxId, req.Config)
		if err != nil {
			return nil, err
		}
		return &runtimeapi.CreateContainerResponse{ContainerId: id}, nil
	})
}

// StartContainer is the CRI's.
func (r *Runtime) StartContainer(ctx context.Context, req *runtimeapi.StartContainerRequest) (*runtimeapi.StartContainerResponse, error) {
	return call(ctx, r, "StartContainer", r.fullIDs(req.ContainerId), func([]mangle) (*runtimeapi.StartContainerResponse, error) {
		return &runtimeapi.StartContainerResponse{}, r.Start(ctx, req.ContainerId)
	})
}

// StopContainer is the CRI's.
func (r *Runtime) StopContainer(ctx context.Context, req *runtimeapi.StopContainerRequest) (*runtimeapi.StopContainerResponse, error) {
	return call(ctx, r, "StopContainer", r.fullIDs(req.ContainerId), func([]mangle) (*runtimeapi.StopContainerResponse, error) {
		grace := time.Duration(min(max(req.Timeout, 0), int64(time.Hour/time.Second))) * time.Second
		return &runtimeapi.StopContainerResponse{}, r.Stop(ctx, req.ContainerId, grace)
	})
}

// RemoveContainer is the CRI's.
func (r *Runtime) RemoveContainer(ctx context.Context, req *runtimeapi.RemoveContainerRequest) (*runtimeapi.RemoveContainerResponse, error) {
	return call(ctx, r, "RemoveContainer", r.fullIDs(req.ContainerId), func([]mangle) (*runtimeapi.RemoveContainerResponse, error) {
		return &runtimeapi.RemoveContainerResponse{}, r.Remove(ctx, req.ContainerId)
	})
}

// ListContainers is the CRI's. The items are shared and must not be changed.
func (r *Runtime) ListContainers(ctx context.Context, req *runtimeapi.ListContainersRequest) (*runtimeapi.ListContainersResponse, error) {
	ids := r.fullIDs(req.GetFilter().GetId(), req.GetFilter().GetPodSandboxId())
	return call(ctx, r, "ListContainers", ids, func(m []mangle) (*runtimeapi.ListContainersResponse, error) {
		list := r.listContainers(req.Filter)
		return &runtimeapi.ListContainersResponse{
			Containers: mangleList(list, m, (*runtimeapi.Container).GetId, damageContainer),
		}, nil
	})
}

// StreamContainers is the CRI's.
func (r *Runtime) StreamContainers(req *runtimeapi.StreamContainersRequest, stream grpc.ServerStreamingServer[runtimeapi.StreamContainersResponse]) error {
	ids := r.fullIDs(req.GetFilter().GetId(), req.GetFilter().GetPodSandboxId())
	return streamList(stream.Context(), r, "StreamContainers", ids, func(m []mangle) []*runtimeapi.Container {
		return mangleList(r.listContainers(req.Filter), m, (*runtimeapi.Container).GetId, damageContainer)
	}, func(part []*runtimeapi.Container) error {
		return stream.Send(&runtimeapi.StreamContainersResponse{Containers: part})
	})
}

// ContainerStatus is the CRI's. The status is shared and must not be changed.
// The verbose info holds, like containerd's, a JSON object with sandboxID and
// pid; pid is 0 when nothing runs.
func (r *Runtime) ContainerStatus(ctx context.Context, req *runtimeapi.ContainerStatusRequest) (*runtimeapi.ContainerStatusResponse, error) {
	return call(ctx, r, "ContainerStatus", r.fullIDs(req.ContainerId), func(m []mangle) (*runtimeapi.ContainerStatusResponse, error) {
		resp, err := r.containerStatus(req.ContainerId, req.Verbose)
		if err != nil {
			return nil, err
		}
		switch what := manglesOf(m, resp.Status.Id); {
		case what&MangleDrop != 0:
			return nil, status.Errorf(codes.NotFound, "container %q not found", req.ContainerId)
		case what&MangleNil != 0:
			resp.Status = nil
		default:
			resp.Status = damaged(resp.Status, what, damageContainerStatus)
		}
		return resp, nil
	})
}

func (r *Runtime) containerStatus(id string, verbose bool) (*runtimeapi.ContainerStatusResponse, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	c, err := r.containers.find(id)
	if err != nil {
		return nil, err
	}
	if !c.view.visible() {
		return nil, status.Errorf(codes.NotFound, "container %q not found", id)
	}
	resp := &runtimeapi.ContainerStatusResponse{Status: c.view.full}
	if verbose {
		pid := 0
		if c.view.real.full.State == runtimeapi.ContainerState_CONTAINER_RUNNING {
			pid = c.cgroup.Pid
		}
		resp.Info = info(map[string]any{"sandboxID": c.sandbox.id, "pid": pid, "command": slices.Concat(c.config.Command, c.config.Args)})
	}
	return resp, nil
}

func info(what map[string]any) map[string]string {
	text, err := json.Marshal(what)
	if err != nil {
		text = []byte("{}")
	}
	return map[string]string{"info": string(text)}
}

// GetContainerEvents is the CRI's. Any number of clients may read; each gets what
// happens from its call on, and one that is too far behind is cut off with
// ResourceExhausted. The header is sent when the subscription stands.
func (r *Runtime) GetContainerEvents(_ *runtimeapi.GetEventsRequest, stream grpc.ServerStreamingServer[runtimeapi.ContainerEventResponse]) error {
	return r.streamEvents(stream.Context(), func() error { return stream.SendHeader(nil) }, stream.Send)
}

// UpdateContainerResources is the CRI's; no resource is limited here.
func (r *Runtime) UpdateContainerResources(ctx context.Context, req *runtimeapi.UpdateContainerResourcesRequest) (*runtimeapi.UpdateContainerResourcesResponse, error) {
	return call(ctx, r, "UpdateContainerResources", r.fullIDs(req.ContainerId), func([]mangle) (*runtimeapi.UpdateContainerResourcesResponse, error) {
		if _, err := r.containerStatus(req.ContainerId, false); err != nil {
			return nil, err
		}
		return &runtimeapi.UpdateContainerResourcesResponse{}, nil
	})
}
