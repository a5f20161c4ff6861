package embedded

import (
	"context"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// sandbox is one pod sandbox. Its fields are guarded by Runtime.op; containers
// and view also by Runtime.mu.
type sandbox struct {
	sequence
	id         string
	number     uint64
	name       string
	config     *runtimeapi.PodSandboxConfig
	handler    string
	cgroup     Cgroup
	createdAt  time.Time
	phase      phase
	stopping   bool // a StopPod began: no container may start any more
	containers []*container
	view       view[*runtimeapi.PodSandbox, *runtimeapi.PodSandboxStatus]
}

func (s *sandbox) key() (string, uint64) { return s.id, s.number }

// RunPod makes a sandbox and starts it. It returns its ID when the CRI shows it
// READY; should ctx end earlier, the sandbox becomes READY all the same. A second
// sandbox of the same namespace, name, UID and attempt is refused with
// AlreadyExists.
func (r *Runtime) RunPod(ctx context.Context, config *runtimeapi.PodSandboxConfig) (string, error) {
	return r.runPod(ctx, config, "")
}

func (r *Runtime) runPod(ctx context.Context, config *runtimeapi.PodSandboxConfig, handler string) (string, error) {
	if config.GetMetadata() == nil {
		return "", status.Error(codes.InvalidArgument, "the pod sandbox's configuration has no metadata")
	}
	s := &sandbox{
		name:      podName(config.Metadata),
		config:    proto.CloneOf(config),
		handler:   handler,
		createdAt: time.Now(),
		phase:     phaseRunning,
	}
	r.op.Lock()
	if r.isClosed() {
		r.op.Unlock()
		return "", errClosed()
	}
	if holder := r.names[s.name]; holder != nil {
		r.op.Unlock()
		return "", status.Errorf(codes.AlreadyExists, "the name %q belongs to pod sandbox %s", s.name, holder.id)
	}
	s.id, s.number = r.newID()
	s.cgroup = Cgroup{Parent: config.GetLinux().GetCgroupParent(), ID: s.id, Pid: r.newPid()}
	if s.cgroup.Parent == "" {
		s.cgroup.Parent = "/k8s.io"
	}
	r.names[s.name] = s
	r.parents[s.cgroup.Parent]++
	if r.parents[s.cgroup.Parent] == 1 {
		r.mirrored(r.mirror.PodAdded(s.cgroup.Parent))
	}
	r.mirrored(r.mirror.Created(s.cgroup))
	r.mirrored(r.mirror.Populated(s.cgroup))

	// A sandbox that is not READY yet is in no list.
	r.mu.Lock()
	r.sandboxes.add(s)
	r.mu.Unlock()
	r.after(&s.sequence, r.draw(r.lag.Start), func() {
		r.showSandbox(s, runtimeapi.PodSandboxState_SANDBOX_READY)
		r.publish(s, s.id, runtimeapi.ContainerEventType_CONTAINER_CREATED_EVENT)
		r.publish(s, s.id, runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT)
	})
	r.op.Unlock()
	return s.id, r.settle(ctx, &s.sequence)
}

// StopPod kills the containers of a sandbox and then the sandbox, and returns
// when the CRI shows them so. Stopping a sandbox that is stopped or unknown is
// no error. From the call on no container can be made or started in the sandbox,
// even if ctx ends early.
func (r *Runtime) StopPod(ctx context.Context, id string) error {
	r.op.Lock()
	s, err := r.sandboxes.find(id)
	if err != nil {
		r.op.Unlock()
		return nil
	}
	s.stopping = true
	containers := append([]*container(nil), s.containers...)
	for _, c := range containers {
		r.exit(c, exitKilled, "", "")
	}
	r.op.Unlock()
	for _, c := range containers {
		if err := r.settle(ctx, &c.sequence); err != nil {
			return err
		}
	}
	r.op.Lock()
	r.exitSandbox(s)
	r.op.Unlock()
	return r.settle(ctx, &s.sequence)
}

// exitSandbox ends the process that holds the sandbox open. Runtime.op is held.
func (r *Runtime) exitSandbox(s *sandbox) {
	if s.phase != phaseRunning || r.isClosed() {
		return
	}
	s.phase = phaseExited
	r.mirrored(r.mirror.Emptied(s.cgroup))
	lag := r.draw(r.lag.Exit)
	r.after(&s.sequence, lag*3/5, func() { r.mirrored(r.mirror.Removed(s.cgroup)) })
	r.after(&s.sequence, lag, func() {
		r.showSandbox(s, runtimeapi.PodSandboxState_SANDBOX_NOTREADY)
		r.publish(s, s.id, runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT)
	})
}

// RemovePod stops a sandbox if need be, and removes it with all its containers.
// Removing one that is unknown is no error.
func (r *Runtime) RemovePod(ctx context.Context, id string) error {
	r.op.Lock()
	s, err := r.sandboxes.find(id)
	r.op.Unlock()
	if err != nil {
		return nil
	}
	if err := r.StopPod(ctx, s.id); err != nil {
		return err
	}
	for {
		r.op.Lock()
		if len(s.containers) == 0 {
			break
		}
		c := s.containers[0]
		r.op.Unlock()
		if err := r.Remove(ctx, c.id); err != nil {
			return err
		}
	}
	defer r.op.Unlock()
	if r.isClosed() {
		return errClosed()
	}
	if r.sandboxes.byID[s.id] != s {
		return nil
	}
	s.drop()
	delete(r.names, s.name)
	r.parents[s.cgroup.Parent]--
	if r.parents[s.cgroup.Parent] == 0 {
		delete(r.parents, s.cgroup.Parent)
		r.mirrored(r.mirror.PodRemoved(s.cgroup.Parent))
	}
	r.mu.Lock()
	r.sandboxes.remove(s)
	r.mu.Unlock()
	r.publish(s, s.id, runtimeapi.ContainerEventType_CONTAINER_DELETED_EVENT)
	return nil
}

// accepts reports whether containers may be made and started in s. Runtime.op is held.
func (s *sandbox) accepts() bool { return s.phase == phaseRunning && !s.stopping }

// showSandbox makes state what the CRI shows of s. Runtime.op is held.
func (r *Runtime) showSandbox(s *sandbox, state runtimeapi.PodSandboxState) {
	list := &runtimeapi.PodSandbox{
		Id:             s.id,
		Metadata:       s.config.Metadata,
		State:          state,
		CreatedAt:      s.createdAt.UnixNano(),
		Labels:         s.config.Labels,
		Annotations:    s.config.Annotations,
		RuntimeHandler: s.handler,
	}
	full := &runtimeapi.PodSandboxStatus{
		Id:        s.id,
		Metadata:  s.config.Metadata,
		State:     state,
		CreatedAt: list.CreatedAt,
		Network:   &runtimeapi.PodSandboxNetworkStatus{},
		Linux: &runtimeapi.LinuxPodSandboxStatus{Namespaces: &runtimeapi.Namespace{
			Options: s.config.GetLinux().GetSecurityContext().GetNamespaceOptions(),
		}},
		Labels:         s.config.Labels,
		Annotations:    s.config.Annotations,
		RuntimeHandler: s.handler,
	}
	r.mu.Lock()
	s.view.show(list, full)
	r.mu.Unlock()
}

// podName is what containerd reserves for a sandbox, so that a client that
// repeats a request does not get two.
func podName(m *runtimeapi.PodSandboxMetadata) string {
	return strings.Join([]string{m.Name, m.Namespace, m.Uid, strconv.FormatUint(uint64(m.Attempt), 10)}, "_")
}
