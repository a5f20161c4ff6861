package relist

import (
	"context"
	"fmt"
	"slices"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// unfilteredAbove is the number of sandboxes of one pod above which listing all
// containers once is cheaper than listing them sandbox by sandbox.
const unfilteredAbove = 3

// listAll observes everything: the sandboxes, then the containers, so that a
// container whose sandbox has just been made is the rarer case of the two.
func listAll(ctx context.Context, rt Runtime) (*Observation, error) {
	o := &Observation{At: time.Now()}
	var err error
	if o.Sandboxes, err = rt.ListPodSandbox(ctx, nil); err != nil {
		return nil, fmt.Errorf("list pod sandboxes: %w", err)
	}
	if o.Containers, err = rt.ListContainers(ctx, nil); err != nil {
		return nil, fmt.Errorf("list containers: %w", err)
	}
	return o, nil
}

// listPod observes one pod. Its sandboxes are found by the label that the kubelet
// gives them, or by their IDs where they do not carry it; its containers by the
// sandboxes, which CRI-O resolves without walking all containers.
func listPod(ctx context.Context, rt Runtime, s *Store, uid string) (*Observation, error) {
	known, labelled := s.podSandboxes(uid)
	o := &Observation{At: time.Now(), PodUID: uid}

	filters := []*runtimeapi.PodSandboxFilter{{LabelSelector: map[string]string{labelPodUID: uid}}}
	if !labelled {
		filters = filters[:0]
		for _, id := range known {
			filters = append(filters, &runtimeapi.PodSandboxFilter{Id: id})
		}
	}
	for _, filter := range filters {
		got, err := rt.ListPodSandbox(ctx, filter)
		if err != nil {
			return nil, fmt.Errorf("list sandboxes of pod %s: %w", uid, err)
		}
		o.Sandboxes = append(o.Sandboxes, got...)
	}

	ids := known
	for _, sb := range o.Sandboxes {
		if id := sb.GetId(); id != "" && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	if len(ids) > unfilteredAbove {
		got, err := rt.ListContainers(ctx, nil)
		if err != nil {
			return nil, fmt.Errorf("list containers for pod %s: %w", uid, err)
		}
		o.Containers = slices.DeleteFunc(slices.Clone(got), func(c *runtimeapi.Container) bool {
			return !slices.Contains(ids, c.GetPodSandboxId())
		})
		return o, nil
	}
	for _, id := range ids {
		got, err := rt.ListContainers(ctx, &runtimeapi.ContainerFilter{PodSandboxId: id})
		if err != nil {
			return nil, fmt.Errorf("list containers of pod %s: %w", uid, err)
		}
		o.Containers = append(o.Containers, got...)
	}
	return o, nil
}
