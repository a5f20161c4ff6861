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
func listAll(ctx context.Context, rt Runtime, s *Store) (*Observation, error) {
	o := &Observation{begun: s.generation(), At: time.Now()}
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
	scope := s.scope(uid)
	o := &Observation{begun: scope.gen, At: time.Now(), PodUID: uid}

	var filters []*runtimeapi.PodSandboxFilter
	if scope.byLabel {
		filters = append(filters, &runtimeapi.PodSandboxFilter{LabelSelector: map[string]string{labelPodUID: uid}})
	}
	for _, id := range scope.byID {
		filters = append(filters, &runtimeapi.PodSandboxFilter{Id: id})
	}
	for _, filter := range filters {
		got, err := rt.ListPodSandbox(ctx, filter)
		if err != nil {
			return nil, fmt.Errorf("list sandboxes of pod %s: %w", uid, err)
		}
		o.Sandboxes = append(o.Sandboxes, got...)
	}

	ids := scope.sandboxes
	for _, sb := range o.Sandboxes {
		if id := sb.GetId(); id != "" && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	if len(ids) > unfilteredAbove || len(scope.loose) > 0 {
		got, err := rt.ListContainers(ctx, nil)
		if err != nil {
			return nil, fmt.Errorf("list containers for pod %s: %w", uid, err)
		}
		for _, c := range got {
			if slices.Contains(ids, c.GetPodSandboxId()) || slices.Contains(scope.loose, c.GetId()) {
				o.Containers = append(o.Containers, c)
			}
		}
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
