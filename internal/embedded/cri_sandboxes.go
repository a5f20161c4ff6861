package embedded

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// RunPodSandbox is the CRI's.
func (r *Runtime) RunPodSandbox(ctx context.Context, req *runtimeapi.RunPodSandboxRequest) (*runtimeapi.RunPodSandboxResponse, error) {
	return call(ctx, r, "RunPodSandbox", nil, func([]mangle) (*runtimeapi.RunPodSandboxResponse, error) {
		id, err := r.runPod(ctx, req.Config, req.RuntimeHandler)
		if err != nil {
			return nil, err
		}
		return &runtimeapi.RunPodSandboxResponse{PodSandboxId: id}, nil
	})
}

// StopPodSandbox is the CRI's.
func (r *Runtime) StopPodSandbox(ctx context.Context, req *runtimeapi.StopPodSandboxRequest) (*runtimeapi.StopPodSandboxResponse, error) {
	return call(ctx, r, "StopPodSandbox", r.fullIDs(req.PodSandboxId), func([]mangle) (*runtimeapi.StopPodSandboxResponse, error) {
		return &runtimeapi.StopPodSandboxResponse{}, r.StopPod(ctx, req.PodSandboxId)
	})
}

// RemovePodSandbox is the CRI's.
func (r *Runtime) RemovePodSandbox(ctx context.Context, req *runtimeapi.RemovePodSandboxRequest) (*runtimeapi.RemovePodSandboxResponse, error) {
	return call(ctx, r, "RemovePodSandbox", r.fullIDs(req.PodSandboxId), func([]mangle) (*runtimeapi.RemovePodSandboxResponse, error) {
		return &runtimeapi.RemovePodSandboxResponse{}, r.RemovePod(ctx, req.PodSandboxId)
	})
}

// PodSandboxStatus is the CRI's. The statuses are shared and must not be changed.
func (r *Runtime) PodSandboxStatus(ctx context.Context, req *runtimeapi.PodSandboxStatusRequest) (*runtimeapi.PodSandboxStatusResponse, error) {
	return call(ctx, r, "PodSandboxStatus", r.fullIDs(req.PodSandboxId), func(m []mangle) (*runtimeapi.PodSandboxStatusResponse, error) {
		resp, err := r.sandboxStatus(req.PodSandboxId, req.Verbose)
		if err != nil {
			return nil, err
		}
		switch what := manglesOf(m, resp.Status.Id); {
		case what&MangleDrop != 0:
			return nil, status.Errorf(codes.NotFound, "pod sandbox %q not found", req.PodSandboxId)
		case what&MangleNil != 0:
			resp.Status = nil
		default:
			resp.Status = damaged(resp.Status, what, damageSandboxStatus)
		}
		return resp, nil
	})
}

func (r *Runtime) sandboxStatus(id string, verbose bool) (*runtimeapi.PodSandboxStatusResponse, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	s, err := r.sandboxes.find(id)
	if err != nil {
		return nil, err
	}
	if !s.view.visible() {
		return nil, status.Errorf(codes.NotFound, "pod sandbox %q not found", id)
	}
	resp := &runtimeapi.PodSandboxStatusResponse{Status: s.view.full, Timestamp: time.Now().UnixNano()}
	for _, c := range s.containers {
		if c.view.visible() {
			resp.ContainersStatuses = append(resp.ContainersStatuses, c.view.full)
		}
	}
	if verbose {
		pid := 0
		if s.view.real.full.State == runtimeapi.PodSandboxState_SANDBOX_READY {
			pid = s.cgroup.Pid
		}
		resp.Info = info(map[string]any{"pid": pid, "cgroupParent": s.cgroup.Parent})
	}
	return resp, nil
}

// ListPodSandbox is the CRI's. The items are shared and must not be changed.
func (r *Runtime) ListPodSandbox(ctx context.Context, req *runtimeapi.ListPodSandboxRequest) (*runtimeapi.ListPodSandboxResponse, error) {
	return call(ctx, r, "ListPodSandbox", r.fullIDs(req.GetFilter().GetId()), func(m []mangle) (*runtimeapi.ListPodSandboxResponse, error) {
		return &runtimeapi.ListPodSandboxResponse{
			Items: mangleList(r.listSandboxes(req.Filter), m, (*runtimeapi.PodSandbox).GetId, damageSandbox),
		}, nil
	})
}

// StreamPodSandboxes is the CRI's.
func (r *Runtime) StreamPodSandboxes(req *runtimeapi.StreamPodSandboxesRequest, stream grpc.ServerStreamingServer[runtimeapi.StreamPodSandboxesResponse]) error {
	return streamList(stream.Context(), r, "StreamPodSandboxes", r.fullIDs(req.GetFilter().GetId()), func(m []mangle) []*runtimeapi.PodSandbox {
		return mangleList(r.listSandboxes(req.Filter), m, (*runtimeapi.PodSandbox).GetId, damageSandbox)
	}, func(part []*runtimeapi.PodSandbox) error {
		return stream.Send(&runtimeapi.StreamPodSandboxesResponse{PodSandboxes: part})
	})
}

// streamList sends a list in parts.
func streamList[T any](ctx context.Context, r *Runtime, method string, ids []string, list func([]mangle) []T, send func([]T) error) (err error) {
	end := r.calls.begin(method)
	defer func() { end(err) }()
	d, err := r.faults.enter(ctx, method, ids)
	if err != nil {
		return err
	}
	if r.isClosed() {
		return errClosed()
	}
	items := list(d.mangles)
	part := listPart
	if d.midway != nil {
		part = min(part, (len(items)+1)/2)
	}
	for len(items) > 0 {
		n := min(part, len(items))
		if err := send(items[:n]); err != nil {
			return err
		}
		if d.midway != nil {
			break
		}
		items = items[n:]
	}
	return d.midway
}

// damaged gives a changed copy, or the status itself if nothing is to be changed.
func damaged[T proto.Message](full T, what Mangle, damage func(T, Mangle)) T {
	if what == 0 {
		return full
	}
	full = proto.CloneOf(full)
	damage(full, what)
	return full
}
