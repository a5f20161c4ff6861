package relist

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// listRuntime answers from two lists, with the filters that relisting uses.
type listRuntime struct {
	sandboxes  []*runtimeapi.PodSandbox
	containers []*runtimeapi.Container
}

func (r *listRuntime) ListPodSandbox(_ context.Context, f *runtimeapi.PodSandboxFilter) ([]*runtimeapi.PodSandbox, error) {
	var out []*runtimeapi.PodSandbox
	for _, s := range r.sandboxes {
		if f != nil && (f.Id != "" && s.GetId() != f.Id || !hasLabels(s.GetLabels(), f.LabelSelector)) {
			continue
		}
		out = append(out, s)
	}
	return out, nil
}

func (r *listRuntime) ListContainers(_ context.Context, f *runtimeapi.ContainerFilter) ([]*runtimeapi.Container, error) {
	var out []*runtimeapi.Container
	for _, c := range r.containers {
		if f != nil && (f.Id != "" && c.GetId() != f.Id || f.PodSandboxId != "" && c.GetPodSandboxId() != f.PodSandboxId) {
			continue
		}
		out = append(out, c)
	}
	return out, nil
}

func (r *listRuntime) ContainerStatus(context.Context, string, bool) (*runtimeapi.ContainerStatusResponse, error) {
	return nil, nil
}

func hasLabels(labels, want map[string]string) bool {
	for k, v := range want {
		if labels[k] != v {
			return false
		}
	}
	return true
}

// fakeRuntime is a runtime for engine tests. Its lists change under its lock; its
// calls can be made to fail, hang and take time.
type fakeRuntime struct {
	mu   sync.Mutex
	list listRuntime
	// onList and onStatus, when not nil, are called before an answer is given.
	onList   func(ctx context.Context) error
	onStatus func(ctx context.Context, id string) error
	// slowContainers is how long listing containers takes.
	slowContainers time.Duration
	// hangContainers makes it hang until its context ends.
	hangContainers bool
	// never are containers that have no start time.
	never map[string]bool
	// reading counts the status reads under way, most the most at once, reads all.
	reading, most, reads int
	readsOf              map[string]int
	// verbose are the containers that a verbose status was asked of, in order; pids is
	// what it tells.
	verbose []string
	pids    map[string]int
}

func (r *fakeRuntime) ListPodSandbox(ctx context.Context, f *runtimeapi.PodSandboxFilter) ([]*runtimeapi.PodSandbox, error) {
	if r.onList != nil {
		if err := r.onList(ctx); err != nil {
			return nil, err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.list.ListPodSandbox(ctx, f)
}

func (r *fakeRuntime) ListContainers(ctx context.Context, f *runtimeapi.ContainerFilter) ([]*runtimeapi.Container, error) {
	time.Sleep(r.slowContainers) // in a bubble
	if r.hangContainers {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.list.ListContainers(ctx, f)
}

func (r *fakeRuntime) ContainerStatus(ctx context.Context, id string, verbose bool) (*runtimeapi.ContainerStatusResponse, error) {
	r.mu.Lock()
	r.reads++
	if r.readsOf == nil {
		r.readsOf = make(map[string]int)
	}
	r.readsOf[id]++
	if verbose {
		r.verbose = append(r.verbose, id)
	}
	r.reading++
	r.most = max(r.most, r.reading)
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		r.reading--
		r.mu.Unlock()
	}()
	if r.onStatus != nil {
		if err := r.onStatus(ctx, id); err != nil {
			return nil, err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	i := slices.IndexFunc(r.list.containers, func(c *runtimeapi.Container) bool { return c.Id == id })
	if i < 0 {
		return nil, status.Error(codes.NotFound, "no such container")
	}
	c := r.list.containers[i]
	st := &runtimeapi.ContainerStatus{Id: id, State: c.State}
	if !r.never[id] && c.State != runtimeapi.ContainerState_CONTAINER_CREATED {
		st.StartedAt = 100
	}
	if c.State == runtimeapi.ContainerState_CONTAINER_EXITED {
		st.FinishedAt, st.ExitCode, st.Reason = 200, 3, "Error"
	}
	resp := &runtimeapi.ContainerStatusResponse{Status: st}
	if verbose {
		resp.Info = map[string]string{"info": fmt.Sprintf(`{"sandboxID":%q,"pid":%d,"removing":false}`, c.PodSandboxId, r.pids[id])}
	}
	return resp, nil
}

// pod adds a pod with a sandbox.
func (r *fakeRuntime) pod(uid string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list.sandboxes = append(r.list.sandboxes, &runtimeapi.PodSandbox{
		Id: "sandbox-" + uid, Labels: map[string]string{labelPodUID: uid},
		Metadata: &runtimeapi.PodSandboxMetadata{Uid: uid, Name: uid},
	})
}

// sandbox puts a pod's sandbox into a state.
func (r *fakeRuntime) sandbox(uid string, st runtimeapi.PodSandboxState) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, sb := range r.list.sandboxes {
		if sb.Id == "sandbox-"+uid {
			r.list.sandboxes[i] = &runtimeapi.PodSandbox{Id: sb.Id, Labels: sb.Labels, Metadata: sb.Metadata, State: st}
		}
	}
}

func (r *fakeRuntime) dropSandbox(uid string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list.sandboxes = slices.DeleteFunc(r.list.sandboxes, func(sb *runtimeapi.PodSandbox) bool { return sb.Id == "sandbox-"+uid })
}

// set puts a pod's container into a state, and adds it if it is new.
func (r *fakeRuntime) set(uid, id string, st runtimeapi.ContainerState) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := &runtimeapi.Container{Id: id, PodSandboxId: "sandbox-" + uid, State: st, Metadata: &runtimeapi.ContainerMetadata{Name: "app"}}
	i := slices.IndexFunc(r.list.containers, func(c *runtimeapi.Container) bool { return c.Id == id })
	if i < 0 {
		r.list.containers = append(r.list.containers, c)
	} else {
		r.list.containers[i] = c
	}
}

func (r *fakeRuntime) drop(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list.containers = slices.DeleteFunc(r.list.containers, func(c *runtimeapi.Container) bool { return c.Id == id })
}

func (r *fakeRuntime) pods(n int) {
	for i := range n {
		r.pod(fmt.Sprintf("p%d", i))
	}
}
