package relist

import (
	"cmp"
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
//
// The containers of the sandboxes that are known are listed at the same time as
// the sandboxes: it is the round trips that an early relist takes its time for.
func listPod(ctx context.Context, rt Runtime, s *Store, uid string) (*Observation, error) {
	scope := s.scope(uid)
	o := &Observation{begun: scope.gen, At: time.Now(), PodUID: uid}
	if len(scope.sandboxes) > unfilteredAbove || len(scope.loose) > 0 {
		return o, listPodUnfiltered(ctx, rt, scope, o)
	}

	// What is still being listed when a call has failed is of no use.
	caller := ctx
	ctx, cancel := context.WithCancelCause(caller)
	defer cancel(nil)
	type listed struct {
		containers []*runtimeapi.Container
		err        error
	}
	early := make([]chan listed, len(scope.sandboxes))
	for i, sb := range scope.sandboxes {
		early[i] = make(chan listed, 1)
		go func() {
			var l listed
			if l.containers, l.err = listContainersOf(ctx, rt, sb.id); l.err != nil {
				cancel(l.err)
			}
			early[i] <- l
		}()
	}
	err := listSandboxesOf(ctx, rt, scope, o)
	if err != nil {
		cancel(err)
	}
	for i, sb := range scope.sandboxes {
		l := <-early[i]
		if err = cmp.Or(err, l.err); err == nil && sb.stillLives(o) {
			o.Containers = append(o.Containers, l.containers...)
			scope.done = append(scope.done, sb.id)
		}
	}
	if err != nil {
		if first := context.Cause(ctx); caller.Err() == nil && first != nil {
			err = first // the others only say that they were cancelled
		}
		return nil, err
	}
	for _, id := range scope.sandboxIDs(o) {
		if slices.Contains(scope.done, id) {
			continue
		}
		got, err := listContainersOf(ctx, rt, id)
		if err != nil {
			return nil, err
		}
		o.Containers = append(o.Containers, got...)
	}
	return o, nil
}

// stillLives reports whether the containers listed for a sandbox while the
// sandboxes were listed may be taken as they are. They may be older than the
// sandbox's state. That does not matter while it lives; but had it ended in between,
// its end would come before its containers', so that these are listed again.
func (sb podSandbox) stillLives(o *Observation) bool {
	return slices.ContainsFunc(o.Sandboxes, func(got *runtimeapi.PodSandbox) bool {
		return got.GetId() == sb.id &&
			(got.GetState() == runtimeapi.PodSandboxState_SANDBOX_READY || sb.state == exited)
	})
}

// sandboxIDs are the sandboxes to list containers of: those known before, and
// those that turned up.
func (sc *podScope) sandboxIDs(o *Observation) []string {
	ids := make([]string, 0, len(sc.sandboxes)+1)
	for _, sb := range sc.sandboxes {
		ids = append(ids, sb.id)
	}
	for _, sb := range o.Sandboxes {
		if id := sb.GetId(); id != "" && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// listPodUnfiltered lists all containers to find those of a pod: it has many
// sandboxes, or containers that name none.
func listPodUnfiltered(ctx context.Context, rt Runtime, scope podScope, o *Observation) error {
	if err := listSandboxesOf(ctx, rt, scope, o); err != nil {
		return err
	}
	got, err := rt.ListContainers(ctx, nil)
	if err != nil {
		return fmt.Errorf("list containers for pod %s: %w", o.PodUID, err)
	}
	ids := scope.sandboxIDs(o)
	for _, c := range got {
		if slices.Contains(ids, c.GetPodSandboxId()) || slices.Contains(scope.loose, c.GetId()) {
			o.Containers = append(o.Containers, c)
		}
	}
	return nil
}

func listSandboxesOf(ctx context.Context, rt Runtime, scope podScope, o *Observation) error {
	var filters []*runtimeapi.PodSandboxFilter
	if scope.byLabel {
		filters = append(filters, &runtimeapi.PodSandboxFilter{LabelSelector: map[string]string{labelPodUID: o.PodUID}})
	}
	for _, id := range scope.byID {
		filters = append(filters, &runtimeapi.PodSandboxFilter{Id: id})
	}
	for _, filter := range filters {
		got, err := rt.ListPodSandbox(ctx, filter)
		if err != nil {
			return fmt.Errorf("list sandboxes of pod %s: %w", o.PodUID, err)
		}
		o.Sandboxes = append(o.Sandboxes, got...)
	}
	return nil
}

func listContainersOf(ctx context.Context, rt Runtime, sandboxID string) ([]*runtimeapi.Container, error) {
	got, err := rt.ListContainers(ctx, &runtimeapi.ContainerFilter{PodSandboxId: sandboxID})
	if err != nil {
		return nil, fmt.Errorf("list containers of sandbox %s: %w", sandboxID, err)
	}
	return got, nil
}
