package embedded

import (
	"context"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// container is one container. Its fields are guarded by Runtime.op; view also by
// Runtime.mu.
type container struct {
	sequence
	id        string
	number    uint64
	sandbox   *sandbox
	config    *runtimeapi.ContainerConfig
	behaviour Behaviour
	cgroup    Cgroup
	phase     phase
	// life ends the container by itself.
	life *time.Timer
	// ended is closed when the CRI shows it exited, or no more.
	ended chan struct{}

	createdAt, startedAt, finishedAt time.Time
	exitCode                         int32
	reason, message                  string

	view view[*runtimeapi.Container, *runtimeapi.ContainerStatus]
}

func (c *container) key() (string, uint64) { return c.id, c.number }

func (c *container) stopLife() {
	if c.life != nil {
		c.life.Stop()
	}
}

// Create makes a container in a sandbox that is READY. The CRI shows it CREATED
// when Create returns. Errors: NotFound (no such sandbox), FailedPrecondition (it
// is not READY, or being stopped), InvalidArgument (no metadata, no image, or a command
// that [ParseCommand] refuses), AlreadyExists (the sandbox has that name and attempt).
func (r *Runtime) Create(_ context.Context, sandboxID string, config *runtimeapi.ContainerConfig) (string, error) {
	if config.GetMetadata() == nil {
		return "", status.Error(codes.InvalidArgument, "the container's configuration has no metadata")
	}
	if config.GetImage().GetImage() == "" {
		return "", status.Error(codes.InvalidArgument, "the container's configuration names no image")
	}
	behaviour, err := ParseCommand(slices.Concat(config.Command, config.Args))
	if err != nil {
		return "", status.Error(codes.InvalidArgument, err.Error())
	}
	c := &container{
		config:    proto.CloneOf(config),
		behaviour: behaviour,
		createdAt: time.Now(),
		ended:     make(chan struct{}),
	}
	r.op.Lock()
	defer r.op.Unlock()
	if r.isClosed() {
		return "", errClosed()
	}
	s, err := r.sandboxes.find(sandboxID)
	if err != nil {
		return "", err
	}
	if !s.accepts() || !s.view.made {
		return "", status.Errorf(codes.FailedPrecondition, "pod sandbox %s is not ready", s.id)
	}
	for _, other := range s.containers {
		m := other.config.Metadata
		if m.Name == config.Metadata.Name && m.Attempt == config.Metadata.Attempt {
			return "", status.Errorf(codes.AlreadyExists,
				"container %q, attempt %d, of pod sandbox %s is %s", m.Name, m.Attempt, s.id, other.id)
		}
	}
	c.id, c.number = r.newID()
	c.sandbox = s
	c.cgroup = Cgroup{Parent: s.cgroup.Parent, ID: c.id}
	r.mu.Lock()
	s.containers = append(s.containers, c)
	r.containers.add(c)
	r.mu.Unlock()
	r.showContainer(c, runtimeapi.ContainerState_CONTAINER_CREATED)
	r.publish(s, c.id, runtimeapi.ContainerEventType_CONTAINER_CREATED_EVENT)
	return c.id, nil
}

// Start starts a container that is CREATED and returns when the CRI shows it
// RUNNING, or what became of it since. Should ctx end earlier, it becomes so all the
// same.
func (r *Runtime) Start(ctx context.Context, id string) error {
	r.op.Lock()
	c, err := r.start(id)
	r.op.Unlock()
	if err != nil {
		return err
	}
	return r.settle(ctx, &c.sequence)
}

func (r *Runtime) start(id string) (*container, error) {
	if r.isClosed() {
		return nil, errClosed()
	}
	c, err := r.containers.find(id)
	if err != nil {
		return nil, err
	}
	if c.phase != phaseCreated {
		return nil, status.Errorf(codes.FailedPrecondition, "container %s was already started", c.id)
	}
	if !c.sandbox.accepts() {
		return nil, status.Errorf(codes.FailedPrecondition, "pod sandbox %s of container %s is not ready", c.sandbox.id, c.id)
	}
	if c.behaviour.FailsToStart {
		c.phase = phaseExited
		c.finishedAt = time.Now()
		c.exitCode, c.reason, c.message = exitStartError, "StartError", c.behaviour.Message
		r.showExited(c)
		return nil, status.Errorf(codes.Unknown, "start container %s: %s", c.id, c.behaviour.Message)
	}
	c.phase = phaseRunning
	c.startedAt = time.Now()
	r.tell(c.id, Began)
	r.mu.Lock() // a verbose status tells the pid
	c.cgroup.Pid = r.newPid()
	r.mu.Unlock()
	r.mirrored(r.mirror.Created(c.cgroup))
	r.mirrored(r.mirror.Populated(c.cgroup))
	r.after(&c.sequence, r.draw(r.lag.Start), func() {
		r.showContainer(c, runtimeapi.ContainerState_CONTAINER_RUNNING)
		r.publish(c.sandbox, c.id, runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT)
	})
	switch b := c.behaviour; {
	case b.Exits && b.After <= 0:
		r.exit(c, b.ExitCode, b.Reason, b.Message)
	case b.Exits:
		c.life = time.AfterFunc(b.After, func() {
			r.op.Lock()
			defer r.op.Unlock()
			r.exit(c, b.ExitCode, b.Reason, b.Message)
		})
	}
	return c, nil
}

// exit ends the container's process, if it runs. Runtime.op is held.
func (r *Runtime) exit(c *container, code int32, reason, message string) {
	if c.phase != phaseRunning || r.isClosed() {
		return
	}
	c.stopLife()
	c.phase = phaseExited
	c.finishedAt = time.Now()
	r.tell(c.id, Ended)
	c.exitCode, c.reason, c.message = code, reasonFor(code, reason), message
	r.mirrored(r.mirror.Emptied(c.cgroup))
	lag := r.draw(r.lag.Exit)
	// containerd has runc remove the cgroup, then changes the state.
	r.after(&c.sequence, lag*3/5, func() { r.mirrored(r.mirror.Removed(c.cgroup)) })
	r.after(&c.sequence, lag, func() { r.showExited(c) })
}

func (r *Runtime) showExited(c *container) {
	r.showContainer(c, runtimeapi.ContainerState_CONTAINER_EXITED)
	close(c.ended)
	r.publish(c.sandbox, c.id, runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT)
}

// Stop ends a running container: with SIGTERM, and SIGKILL once grace has passed,
// or at once if grace is 0. It returns when the CRI shows it EXITED. Stopping one
// that does not run, or is unknown, is no error.
func (r *Runtime) Stop(ctx context.Context, id string, grace time.Duration) error {
	r.op.Lock()
	c, err := r.containers.find(id)
	if err != nil {
		r.op.Unlock()
		return nil
	}
	switch {
	case grace <= 0:
		r.exit(c, exitKilled, "", "")
	case !c.behaviour.IgnoresTerm:
		r.exit(c, c.behaviour.TermExitCode, "", "")
	case c.phase == phaseRunning:
		r.op.Unlock()
		if err := r.waitEnded(ctx, c, grace); err != nil {
			return err
		}
		r.op.Lock()
		r.exit(c, exitKilled, "", "")
	}
	r.op.Unlock()
	return r.settle(ctx, &c.sequence)
}

// waitEnded waits until c has ended, at most for d.
func (r *Runtime) waitEnded(ctx context.Context, c *container, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-c.ended:
		return nil
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	case <-r.done:
		return errClosed()
	}
}

// Remove kills a container if it runs, and removes it. Removing one that is
// unknown is no error.
func (r *Runtime) Remove(ctx context.Context, id string) error {
	r.op.Lock()
	c, err := r.containers.find(id)
	if err != nil {
		r.op.Unlock()
		return nil
	}
	for {
		// Again if somebody started it while we waited.
		r.exit(c, exitKilled, "", "")
		if len(c.steps) == 0 || r.isClosed() {
			break
		}
		r.op.Unlock()
		if err := r.settle(ctx, &c.sequence); err != nil {
			return err
		}
		r.op.Lock()
	}
	defer r.op.Unlock()
	if r.isClosed() {
		return errClosed()
	}
	if r.containers.byID[c.id] != c {
		return nil
	}
	if c.phase == phaseCreated {
		c.phase = phaseExited
		close(c.ended)
	}
	s := c.sandbox
	r.mu.Lock()
	s.containers = slices.DeleteFunc(s.containers, func(o *container) bool { return o == c })
	r.containers.remove(c)
	r.mu.Unlock()
	r.tell(c.id, ShownRemoved)
	r.publish(s, c.id, runtimeapi.ContainerEventType_CONTAINER_DELETED_EVENT)
	return nil
}

// Wait waits until the CRI shows the container EXITED, or until it is removed,
// and returns its last status.
func (r *Runtime) Wait(ctx context.Context, id string) (*runtimeapi.ContainerStatus, error) {
	r.op.Lock()
	c, err := r.containers.find(id)
	r.op.Unlock()
	if err != nil {
		return nil, err
	}
	select {
	case <-c.ended:
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	case <-r.done:
		return nil, errClosed()
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	return c.view.real.full, nil
}

// showContainer makes state, and the details known by now, what the CRI shows of
// c. Runtime.op is held.
func (r *Runtime) showContainer(c *container, state runtimeapi.ContainerState) {
	image := c.config.Image
	list := &runtimeapi.Container{
		Id:           c.id,
		PodSandboxId: c.sandbox.id,
		Metadata:     c.config.Metadata,
		Image:        image,
		ImageRef:     imageID(image.Image),
		ImageId:      imageID(image.Image),
		State:        state,
		CreatedAt:    c.createdAt.UnixNano(),
		Labels:       c.config.Labels,
		Annotations:  c.config.Annotations,
	}
	full := &runtimeapi.ContainerStatus{
		Id:          c.id,
		Metadata:    c.config.Metadata,
		State:       state,
		CreatedAt:   list.CreatedAt,
		Image:       image,
		ImageRef:    list.ImageRef,
		ImageId:     list.ImageId,
		Labels:      c.config.Labels,
		Annotations: c.config.Annotations,
		Mounts:      c.config.Mounts,
		LogPath:     c.config.LogPath,
	}
	if state != runtimeapi.ContainerState_CONTAINER_CREATED && !c.startedAt.IsZero() {
		full.StartedAt = c.startedAt.UnixNano()
	}
	if state == runtimeapi.ContainerState_CONTAINER_EXITED {
		full.FinishedAt = c.finishedAt.UnixNano()
		full.ExitCode = c.exitCode
		full.Reason = c.reason
		full.Message = c.message
	}
	r.mu.Lock()
	c.view.show(list, full)
	r.mu.Unlock()
	r.tell(c.id, shown(state))
}
