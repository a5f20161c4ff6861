package differential

import (
	"context"
	"slices"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// fakeRuntime shows one step of a history. Both generators list from it; calls that
// neither makes are not there and panic.
type fakeRuntime struct {
	internalapi.RuntimeService

	mu   sync.Mutex
	step step
	// hang, when not nil, is waited for by each status read of hangs.
	hang  <-chan struct{}
	hangs string
	// nilItem puts a nil into each list.
	nilItem bool
}

func (r *fakeRuntime) show(s step) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.step = s
}

func (r *fakeRuntime) now() step {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.step
}

// Version implements the CRI.
func (r *fakeRuntime) Version(context.Context, string) (*runtimeapi.VersionResponse, error) {
	return &runtimeapi.VersionResponse{Version: "0.1.0", RuntimeName: "fake", RuntimeVersion: "1", RuntimeApiVersion: "v1"}, nil
}

func unavailable() error { return status.Error(codes.Unavailable, "made to fail") }

// ListPodSandbox implements the CRI, with the filters that are used.
func (r *fakeRuntime) ListPodSandbox(_ context.Context, f *runtimeapi.PodSandboxFilter) ([]*runtimeapi.PodSandbox, error) {
	s := r.now()
	if s.broken == sandboxList {
		return nil, unavailable()
	}
	var out []*runtimeapi.PodSandbox
	for i := range s.sandboxes {
		sb := s.sandboxes[i].asSandbox()
		if f.GetId() != "" && sb.Id != f.GetId() || !hasLabels(sb.Labels, f.GetLabelSelector()) {
			continue
		}
		out = append(out, sb)
	}
	if r.nilItem {
		out = append(out, nil)
	}
	return out, nil
}

// ListContainers implements the CRI, with the filters that are used.
func (r *fakeRuntime) ListContainers(_ context.Context, f *runtimeapi.ContainerFilter) ([]*runtimeapi.Container, error) {
	s := r.now()
	if s.broken == containersList {
		return nil, unavailable()
	}
	var out []*runtimeapi.Container
	for i := range s.containers {
		c := s.containers[i].asContainer()
		if f.GetPodSandboxId() != "" && c.PodSandboxId != f.GetPodSandboxId() || !hasLabels(c.Labels, f.GetLabelSelector()) {
			continue
		}
		out = append(out, c)
	}
	return out, nil
}

func hasLabels(labels, want map[string]string) bool {
	for k, v := range want {
		if labels[k] != v {
			return false
		}
	}
	return true
}

// find returns what a status read of id is to answer.
func (r *fakeRuntime) find(ctx context.Context, things []thing, id string, s *step) (*thing, error) {
	if r.hang != nil && id == r.hangs {
		select {
		case <-r.hang:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if s.unreadable[id] {
		return nil, unavailable()
	}
	i := slices.IndexFunc(things, func(t thing) bool { return t.id == id })
	if i < 0 || s.notFound[id] {
		return nil, status.Error(codes.NotFound, "no such thing")
	}
	return &things[i], nil
}

// PodSandboxStatus implements the CRI.
func (r *fakeRuntime) PodSandboxStatus(ctx context.Context, id string, _ bool) (*runtimeapi.PodSandboxStatusResponse, error) {
	s := r.now()
	t, err := r.find(ctx, s.sandboxes, id, &s)
	if err != nil {
		return nil, err
	}
	sb := t.asSandbox()
	return &runtimeapi.PodSandboxStatusResponse{Status: &runtimeapi.PodSandboxStatus{
		Id: sb.Id, Metadata: sb.Metadata, State: sb.State, CreatedAt: sb.CreatedAt, Labels: sb.Labels,
		Network: &runtimeapi.PodSandboxNetworkStatus{Ip: "192.0.2.1"},
	}}, nil
}

// ContainerStatus implements the CRI.
func (r *fakeRuntime) ContainerStatus(ctx context.Context, id string, _ bool) (*runtimeapi.ContainerStatusResponse, error) {
	s := r.now()
	t, err := r.find(ctx, s.containers, id, &s)
	if err != nil {
		return nil, err
	}
	c := t.asContainer()
	st := &runtimeapi.ContainerStatus{
		Id: c.Id, Metadata: c.Metadata, State: c.State, CreatedAt: c.CreatedAt, Image: &runtimeapi.ImageSpec{Image: "app"},
		Labels: c.Labels, Annotations: c.Annotations,
	}
	if t.state != created {
		st.StartedAt = c.CreatedAt
	}
	if t.state == exited {
		st.FinishedAt, st.ExitCode, st.Reason = c.CreatedAt+1, 3, "Error"
	}
	return &runtimeapi.ContainerStatusResponse{Status: st}, nil
}

func (t *thing) asSandbox() *runtimeapi.PodSandbox {
	sb := &runtimeapi.PodSandbox{
		Id: t.id, State: runtimeapi.PodSandboxState(t.state), CreatedAt: t.createdAt, Labels: t.labels(),
		Metadata: &runtimeapi.PodSandboxMetadata{Uid: t.pod, Name: t.pod, Namespace: "default", Attempt: t.attempt},
	}
	if t.odd == noMetadata {
		sb.Metadata = nil
	}
	return sb
}

func (t *thing) asContainer() *runtimeapi.Container {
	c := &runtimeapi.Container{
		Id: t.id, PodSandboxId: t.sandbox, State: runtimeapi.ContainerState(t.state), CreatedAt: t.createdAt, Labels: t.labels(),
		Metadata:    &runtimeapi.ContainerMetadata{Name: t.name, Attempt: t.attempt},
		Image:       &runtimeapi.ImageSpec{Image: "app"},
		Annotations: map[string]string{"io.kubernetes.container.hash": "0", "io.kubernetes.container.restartCount": "0"},
	}
	switch t.odd {
	case noMetadata:
		c.Metadata = nil
	case noImage:
		c.Image = nil
	}
	return c
}

func (t *thing) labels() map[string]string {
	if t.odd == noLabels {
		return nil
	}
	return map[string]string{
		"io.kubernetes.pod.uid": t.pod, "io.kubernetes.pod.name": t.pod, "io.kubernetes.pod.namespace": "default",
	}
}
