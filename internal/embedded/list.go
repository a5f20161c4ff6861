package embedded

import (
	"slices"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// listSandboxes gives what the CRI shows, in the order of creation. The slice is
// the caller's, the messages are shared.
func (r *Runtime) listSandboxes(f *runtimeapi.PodSandboxFilter) []*runtimeapi.PodSandbox {
	r.mu.RLock()
	defer r.mu.RUnlock()
	candidates := r.sandboxes.order
	if id := f.GetId(); id != "" {
		s, err := r.sandboxes.find(id)
		if err != nil {
			return nil
		}
		candidates = []*sandbox{s}
	}
	whole := f.GetState() == nil && len(f.GetLabelSelector()) == 0
	out := make([]*runtimeapi.PodSandbox, 0, len(candidates))
	for _, s := range candidates {
		if !s.view.visible() {
			continue
		}
		item := s.view.list
		// With thousands of them it counts not to look into each.
		if whole || (f.State == nil || f.State.State == item.State) && selects(f.LabelSelector, item.Labels) {
			out = append(out, item)
		}
	}
	return out
}

// listContainers is listSandboxes for containers.
func (r *Runtime) listContainers(f *runtimeapi.ContainerFilter) []*runtimeapi.Container {
	r.mu.RLock()
	defer r.mu.RUnlock()
	candidates := r.containers.order
	if id := f.GetPodSandboxId(); id != "" {
		s, err := r.sandboxes.find(id)
		if err != nil {
			return nil
		}
		candidates = s.containers
	}
	if id := f.GetId(); id != "" {
		c, err := r.containers.find(id)
		if err != nil || f.GetPodSandboxId() != "" && !slices.Contains(candidates, c) {
			return nil
		}
		candidates = []*container{c}
	}
	whole := f.GetState() == nil && len(f.GetLabelSelector()) == 0
	out := make([]*runtimeapi.Container, 0, len(candidates))
	for _, c := range candidates {
		if !c.view.visible() {
			continue
		}
		item := c.view.list
		if whole || (f.State == nil || f.State.State == item.State) && selects(f.LabelSelector, item.Labels) {
			out = append(out, item)
		}
	}
	return out
}

// selects says whether labels have all that the selector asks for.
func selects(selector, labels map[string]string) bool {
	for k, v := range selector {
		if have, ok := labels[k]; !ok || have != v {
			return false
		}
	}
	return true
}

// fullIDs completes the IDs that a call names, for the faults, and leaves out the
// empty and the unknown ones.
func (r *Runtime) fullIDs(ids ...string) []string {
	var full []string
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, id := range ids {
		if id == "" {
			continue
		}
		if c, err := r.containers.find(id); err == nil {
			full = append(full, c.id)
		} else if s, err := r.sandboxes.find(id); err == nil {
			full = append(full, s.id)
		}
	}
	return full
}
