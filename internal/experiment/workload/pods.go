package workload

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Pod is a pod that the driver has made.
type Pod struct {
	UID     string
	sandbox string
	config  *runtimeapi.PodSandboxConfig
	// containers are those made in it for the background.
	containers []string
}

// runPod makes a pod, which is then the driver's to remove.
func (d *Driver) runPod(ctx context.Context, name string) (*Pod, error) {
	p := &Pod{config: d.set.podConfig(name)}
	p.UID = p.config.Metadata.Uid
	// Noted before it is there: should ctx end in the middle, it may be there all the
	// same.
	d.mu.Lock()
	d.pods[p.UID] = p
	d.uids[p.UID] = true
	d.mu.Unlock()
	resp, err := d.rt.RunPodSandbox(ctx, &runtimeapi.RunPodSandboxRequest{Config: p.config})
	if err != nil {
		return nil, fmt.Errorf("make pod %s: %w", name, err)
	}
	p.sandbox = resp.GetPodSandboxId()
	return p, nil
}

// removePod kills all that is in a pod, and removes it.
func (d *Driver) removePod(ctx context.Context, p *Pod) error {
	sandboxes := []string{p.sandbox}
	if p.sandbox == "" { // it was being made when the run was interrupted
		list, err := d.rt.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{
			Filter: &runtimeapi.PodSandboxFilter{LabelSelector: map[string]string{labelPodUID: p.UID}},
		})
		if err != nil {
			return fmt.Errorf("find pod %s: %w", p.config.Metadata.Name, err)
		}
		sandboxes = nil
		for _, s := range list.GetItems() {
			sandboxes = append(sandboxes, s.GetId())
		}
	}
	for _, id := range sandboxes {
		if err := removeSandbox(ctx, d.rt, id); err != nil {
			return fmt.Errorf("remove pod %s: %w", p.config.Metadata.Name, err)
		}
	}
	if parent := p.config.Linux.CgroupParent; parent != "" && d.set.RemoveCgroup != nil {
		if err := d.set.RemoveCgroup(parent); err != nil {
			return fmt.Errorf("remove the cgroup of pod %s: %w", p.config.Metadata.Name, err)
		}
	}
	d.mu.Lock()
	delete(d.pods, p.UID)
	d.mu.Unlock()
	return nil
}

func removeSandbox(ctx context.Context, rt runtimeapi.RuntimeServiceClient, id string) error {
	if _, err := rt.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: id}); err != nil {
		return err
	}
	_, err := rt.RemovePodSandbox(ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: id})
	return err
}

// Background makes so many containers run, in pods of at most perPod, and goes on from
// what there is: those too many are removed. progress is told how many there are.
func (d *Driver) Background(ctx context.Context, n, perPod int, progress func(have int)) error {
	have := 0
	for _, p := range d.background {
		have += len(p.containers)
	}
	for have > n {
		last := len(d.background) - 1
		p := d.background[last]
		if err := d.removePod(ctx, p); err != nil {
			return err
		}
		d.background = d.background[:last]
		have -= len(p.containers)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(d.set.Parallel)
	made := make(chan *Pod)
	pods := 0
	for missing := n - have; missing > 0; missing -= perPod {
		pods++
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for p := range made {
			d.background = append(d.background, p)
			have += len(p.containers)
			if progress != nil {
				progress(have)
			}
		}
	}()
	for i, missing := 0, n-have; i < pods; i++ {
		size := min(perPod, missing-i*perPod)
		group.Go(func() error {
			p, err := d.backgroundPod(ctx, size)
			if err == nil {
				made <- p
			}
			return err
		})
	}
	err := group.Wait()
	close(made)
	<-done
	if err != nil {
		return fmt.Errorf("%d containers in the background: %w", n, err)
	}
	return nil
}

func (d *Driver) backgroundPod(ctx context.Context, containers int) (*Pod, error) {
	p, err := d.runPod(ctx, d.name("background"))
	if err != nil {
		return nil, err
	}
	command, args := d.set.Stays()
	for i := range containers {
		id, err := d.create(ctx, p, fmt.Sprint("c", i), command, args)
		if err != nil {
			return nil, err
		}
		if _, err := d.rt.StartContainer(ctx, &runtimeapi.StartContainerRequest{ContainerId: id}); err != nil {
			return nil, fmt.Errorf("start a container: %w", err)
		}
		p.containers = append(p.containers, id)
	}
	return p, nil
}

// Running are the containers of the background.
func (d *Driver) Running() []string {
	var ids []string
	for _, p := range d.background {
		ids = append(ids, p.containers...)
	}
	return ids
}

// Pods makes n pods for a schedule's containers to come and go in.
func (d *Driver) Pods(ctx context.Context, n int) ([]*Pod, error) {
	out := make([]*Pod, n)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(d.set.Parallel)
	for i := range out {
		group.Go(func() (err error) {
			out[i], err = d.runPod(ctx, d.name("churn"))
			return err
		})
	}
	return out, group.Wait()
}

// Remove removes pods.
func (d *Driver) Remove(ctx context.Context, pods []*Pod) error {
	var group errgroup.Group
	group.SetLimit(d.set.Parallel)
	errs := make([]error, len(pods))
	for i, p := range pods {
		group.Go(func() error {
			errs[i] = d.removePod(ctx, p)
			return nil
		})
	}
	_ = group.Wait()
	return errors.Join(errs...)
}

// RemoveAll removes every pod that is left of what the driver has made.
func (d *Driver) RemoveAll(ctx context.Context) error {
	d.mu.Lock()
	var pods []*Pod
	for _, p := range d.pods {
		pods = append(pods, p)
	}
	d.mu.Unlock()
	d.background = nil
	return d.Remove(ctx, pods)
}

// Clean removes every pod that any experiment has made on a runtime, and says how
// many there were.
func Clean(ctx context.Context, rt runtimeapi.RuntimeServiceClient) (int, error) {
	left, err := Left(ctx, rt)
	if err != nil {
		return 0, err
	}
	for i, s := range left {
		if err := removeSandbox(ctx, rt, s.GetId()); err != nil {
			return i, fmt.Errorf("remove pod %s: %w", s.GetMetadata().GetName(), err)
		}
	}
	return len(left), nil
}

// leftTime bounds the look for pods that are left.
const leftTime = 30 * time.Second

// Left lists the pods of experiments that are on a runtime.
func Left(ctx context.Context, rt runtimeapi.RuntimeServiceClient) ([]*runtimeapi.PodSandbox, error) {
	ctx, cancel := context.WithTimeout(ctx, leftTime)
	defer cancel()
	// By hand and not by the selector, which takes whole values only.
	list, err := rt.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{})
	if err != nil {
		return nil, fmt.Errorf("look for pods of earlier experiments: %w", err)
	}
	var out []*runtimeapi.PodSandbox
	for _, s := range list.GetItems() {
		if _, ours := s.GetLabels()[Label]; ours {
			out = append(out, s)
		}
	}
	return out, nil
}
