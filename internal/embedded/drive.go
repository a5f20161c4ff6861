package embedded

import (
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// These are for tests: what no client can make a runtime do. They take a full ID,
// or the beginning of one, and return a NotFound error if there is none such.

// Exit ends a running container's process by itself, or that which holds a
// sandbox open. The kernel shows it at once, the CRI after its lag. Of one that
// does not run nothing is changed. An empty reason becomes Completed or Error;
// for a sandbox, code and reason have no meaning.
func (r *Runtime) Exit(id string, code int32, reason string) error {
	return r.drive(id,
		func(c *container) { r.exit(c, code, reason, "") },
		func(s *sandbox) { r.exitSandbox(s) })
}

// SetState makes the CRI show a container in a state that it is not in, which
// need not be one that the CRI knows, until its state next changes or
// [Runtime.ClearState]. No event is sent.
func (r *Runtime) SetState(id string, state runtimeapi.ContainerState) error {
	return r.drive(id, func(c *container) {
		r.mu.Lock()
		defer r.mu.Unlock()
		c.view.pretend(func(list *runtimeapi.Container, full *runtimeapi.ContainerStatus) {
			list.State, full.State = state, state
		})
	}, nil)
}

// SetSandboxState is SetState for a sandbox.
func (r *Runtime) SetSandboxState(id string, state runtimeapi.PodSandboxState) error {
	return r.drive(id, nil, func(s *sandbox) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if !s.view.made {
			return
		}
		s.view.pretend(func(list *runtimeapi.PodSandbox, full *runtimeapi.PodSandboxStatus) {
			list.State, full.State = state, state
		})
	})
}

// ClearState takes SetState or SetSandboxState back.
func (r *Runtime) ClearState(id string) error {
	return r.drive(id, func(c *container) {
		r.mu.Lock()
		defer r.mu.Unlock()
		c.view.restore()
	}, func(s *sandbox) {
		r.mu.Lock()
		defer r.mu.Unlock()
		s.view.restore()
	})
}

// MarkUnknown makes the CRI show every container that runs as UNKNOWN, as
// containerd does when it could not query them after its own restart.
// [Runtime.ClearStates] takes it back.
func (r *Runtime) MarkUnknown() {
	r.op.Lock()
	defer r.op.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.containers.order {
		if c.phase == phaseRunning {
			c.view.pretend(func(list *runtimeapi.Container, full *runtimeapi.ContainerStatus) {
				list.State, full.State = runtimeapi.ContainerState_CONTAINER_UNKNOWN, runtimeapi.ContainerState_CONTAINER_UNKNOWN
			})
		}
	}
}

// ClearStates takes back every state that was set and not true.
func (r *Runtime) ClearStates() {
	r.op.Lock()
	defer r.op.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.containers.order {
		c.view.restore()
	}
	for _, s := range r.sandboxes.order {
		s.view.restore()
	}
}

// Vanish makes the CRI deny a container or sandbox that lives on, until
// [Runtime.Reappear]: containerd does so when it fails to load its metadata.
func (r *Runtime) Vanish(id string) error { return r.hide(id, true) }

// Reappear takes Vanish back.
func (r *Runtime) Reappear(id string) error { return r.hide(id, false) }

func (r *Runtime) hide(id string, hidden bool) error {
	return r.drive(id, func(c *container) {
		r.mu.Lock()
		defer r.mu.Unlock()
		c.view.hidden = hidden
	}, func(s *sandbox) {
		r.mu.Lock()
		defer r.mu.Unlock()
		s.view.hidden = hidden
	})
}

// Freeze pauses a running container, or lets it go on. The CRI has no state for
// that; the cgroup shows it.
func (r *Runtime) Freeze(id string, frozen bool) error {
	return r.drive(id, func(c *container) {
		if c.phase == phaseRunning {
			r.mirrored(r.mirror.Frozen(c.cgroup, frozen))
		}
	}, nil)
}

// CgroupOf gives the cgroup of a container or sandbox.
func (r *Runtime) CgroupOf(id string) (Cgroup, error) {
	var found Cgroup
	err := r.drive(id, func(c *container) { found = c.cgroup }, func(s *sandbox) { found = s.cgroup })
	return found, err
}

// drive finds a container or sandbox and applies what is meant for it, with
// Runtime.op held. A nil function means that the ID may not be of that kind.
func (r *Runtime) drive(id string, onContainer func(*container), onSandbox func(*sandbox)) error {
	r.op.Lock()
	defer r.op.Unlock()
	var err error
	if onContainer != nil {
		var c *container
		if c, err = r.containers.find(id); err == nil {
			onContainer(c)
			return nil
		}
	}
	if onSandbox != nil {
		var s *sandbox
		if s, err = r.sandboxes.find(id); err == nil {
			onSandbox(s)
			return nil
		}
	}
	return err
}
