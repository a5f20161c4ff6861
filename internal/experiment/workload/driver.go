package workload

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/internal/experiment/clock"
	"github.com/hybrid-pleg/hybrid-pleg/internal/experiment/plan"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Ends tells the driver when a container has ended as the runtime shows it.
type Ends interface {
	// WaitExited returns when the runtime shows the end of a container, or with ctx's
	// error.
	WaitExited(ctx context.Context, id string) error
}

// Driver makes, starts, ends and removes containers over CRI. Background, Pods,
// Remove and RemoveAll are for one goroutine at a time; Play may run beside Started
// and Made.
type Driver struct {
	rt   runtimeapi.RuntimeServiceClient
	set  Setting
	ends Ends

	number  atomic.Int64
	started atomic.Int64

	background []*Pod

	mu   sync.Mutex
	pods map[string]*Pod // those to be removed, by UID
	uids map[string]bool // of all that ever were
	ids  map[string]bool // of all containers that ever were
}

// NewDriver returns a driver that has made nothing yet.
func NewDriver(rt runtimeapi.RuntimeServiceClient, set Setting, ends Ends) *Driver {
	if set.Parallel <= 0 {
		set.Parallel = 4
	}
	return &Driver{rt: rt, set: set, ends: ends, pods: map[string]*Pod{}, uids: map[string]bool{}, ids: map[string]bool{}}
}

// Life is what the driver did to one container.
type Life struct {
	// Container is its ID, Pod the UID of its pod.
	Container, Pod string
	// Counts: it belongs to the part that is measured.
	Counts bool
	// Planned is how long it was to run.
	Planned time.Duration
	// Started: the runtime took the call that starts it.
	Started bool
	// When start, stop and removal were asked for; 0: never.
	AskedStart, AskedStop, AskedRemove int64
	// Late is how much later than scheduled it was begun with.
	Late time.Duration
	// Err is what went wrong; nil for an interrupted run.
	Err error
}

// Made are the UIDs of all pods, and the IDs of all containers, made so far.
func (d *Driver) Made() (pods, containers map[string]bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.uids), maps.Clone(d.ids)
}

// Started is how many containers that count have been started.
func (d *Driver) Started() int { return int(d.started.Load()) }

// Play plays a schedule whose part that counts begins at begin. It returns when the
// last container is removed, or, when ctx ends, with what was played until then;
// containers are then left to RemoveAll.
func (d *Driver) Play(ctx context.Context, w *plan.Workload, s *Schedule, pods []*Pod, begin time.Time) []Life {
	d.started.Store(0)
	lives := make([]Life, 0, len(s.Starts))
	var mu sync.Mutex
	var all sync.WaitGroup
	slots := make(chan struct{}, w.Parallel)
	for _, st := range s.Starts {
		at := begin.Add(st.At)
		if wait(ctx, time.Until(at)) != nil {
			break
		}
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			break
		}
		all.Go(func() {
			defer func() { <-slots }()
			p := &player{d: d, w: w, st: st, life: Life{Counts: st.Counts(), Planned: st.Lifetime, Late: time.Since(at)}}
			if st.Pod != OwnPod {
				p.pod = pods[st.Pod]
			}
			p.run(ctx)
			mu.Lock()
			defer mu.Unlock()
			lives = append(lives, p.life)
		})
	}
	all.Wait()
	return lives
}

// player plays one container.
type player struct {
	d    *Driver
	w    *plan.Workload
	st   Start
	pod  *Pod
	life Life
}

func (p *player) run(ctx context.Context) {
	err := p.play(ctx)
	if ctx.Err() == nil {
		p.life.Err = err
	}
}

// patience is how much longer than its lifetime a container is waited for.
const patience = time.Minute

func (p *player) play(ctx context.Context) (err error) {
	own := p.pod == nil
	if own {
		if p.pod, err = p.d.runPod(ctx, p.d.name("own")); err != nil {
			return err
		}
	}
	p.life.Pod = p.pod.UID
	err = p.container(ctx)
	if own && ctx.Err() == nil {
		err = errors.Join(err, p.d.removePod(ctx, p.pod))
	}
	return err
}

func (p *player) container(ctx context.Context) (err error) {
	rt := p.d.rt
	command, args := p.d.set.Stays()
	if p.w.End == plan.EndExit {
		command, args = p.d.set.Lives(p.st.Lifetime)
	}
	p.life.Container, err = p.d.create(ctx, p.pod, p.d.name("c"), command, args)
	if err != nil {
		return err
	}
	id := p.life.Container
	p.life.AskedStart = clock.Now()
	_, err = rt.StartContainer(ctx, &runtimeapi.StartContainerRequest{ContainerId: id})
	if err == nil {
		p.life.Started = true
		if p.life.Counts {
			p.d.started.Add(1)
		}
		err = p.end(ctx)
	} else {
		err = fmt.Errorf("start a container: %w", err)
	}
	if ctx.Err() != nil {
		return err
	}
	p.life.AskedRemove = clock.Now()
	if _, rerr := rt.RemoveContainer(ctx, &runtimeapi.RemoveContainerRequest{ContainerId: id}); rerr != nil {
		err = errors.Join(err, fmt.Errorf("remove a container: %w", rerr))
	}
	return err
}

// end sees the container to its end, and waits until it is to be removed.
func (p *player) end(ctx context.Context) error {
	id := p.life.Container
	if p.w.End == plan.EndStop {
		if err := wait(ctx, p.st.Lifetime); err != nil {
			return err
		}
		p.life.AskedStop = clock.Now()
		if _, err := p.d.rt.StopContainer(ctx, &runtimeapi.StopContainerRequest{ContainerId: id}); err != nil {
			return fmt.Errorf("stop a container: %w", err)
		}
	}
	bounded, cancel := context.WithTimeout(ctx, p.st.Lifetime+patience)
	defer cancel()
	if err := p.d.ends.WaitExited(bounded, id); err != nil {
		return fmt.Errorf("a container that was to run for %s has not ended: %w", p.st.Lifetime, err)
	}
	return wait(ctx, p.w.RemovalDelay)
}

func (d *Driver) create(ctx context.Context, p *Pod, name string, command, args []string) (string, error) {
	resp, err := d.rt.CreateContainer(ctx, &runtimeapi.CreateContainerRequest{
		PodSandboxId:  p.sandbox,
		Config:        d.set.containerConfig(p.config, name, command, args),
		SandboxConfig: p.config,
	})
	if err != nil {
		return "", fmt.Errorf("make a container: %w", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ids[resp.GetContainerId()] = true
	return resp.GetContainerId(), nil
}

// name is a new name.
func (d *Driver) name(kind string) string { return fmt.Sprintf("%s-%d", kind, d.number.Add(1)) }

// wait waits for t, or less when ctx ends, and then returns its error.
func wait(ctx context.Context, t time.Duration) error {
	if t <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(t)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
