package workload

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/internal/embedded"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// actor plays one pod, or one after another. Its methods fail when ctx ends or
// somebody else interfered.
type actor struct {
	ctx context.Context
	rt  *embedded.Runtime
	rng *rand.Rand
	// round counts how often the cast was repeated before this actor.
	round int
	// beat is the time that one transition is to take in the long run. A play that
	// makes n of them takes n beats.
	beat time.Duration
	// pods are the IDs of the sandboxes that it has made and not removed.
	pods map[string]struct{}
}

// pod is a sandbox that an actor runs.
type pod struct {
	id     string
	config *runtimeapi.PodSandboxConfig
}

// span is a time of n beats, give or take a quarter.
func (a *actor) span(n float64) time.Duration {
	return time.Duration(n * (0.75 + a.rng.Float64()/2) * float64(a.beat)).Round(time.Millisecond)
}

// rest waits for a span.
func (a *actor) rest(n float64) error { return a.sleep(a.span(n)) }

func (a *actor) sleep(d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-a.ctx.Done():
		return a.ctx.Err()
	case <-a.rt.Done():
		return errOver
	}
}

// over says why the play is over, or nil.
func (a *actor) over() error {
	select {
	case <-a.rt.Done():
		return errOver
	default:
		return a.ctx.Err()
	}
}

var errOver = errors.New("the runtime was closed")

// run makes a pod with labels of its own. One transition.
func (a *actor) run(namespace, name string, qos embedded.QoS, labels map[string]string) (pod, error) {
	p := pod{config: embedded.PodConfig(namespace, name, a.uuid(), 0, qos)}
	maps.Copy(p.config.Labels, labels)
	var err error
	p.id, err = a.rt.RunPod(a.ctx, p.config)
	if p.id != "" {
		a.pods[p.id] = struct{}{}
	}
	return p, err
}

// start makes a container and starts it. Two transitions, and a third when it
// ends.
func (a *actor) start(p pod, name string, attempt uint32, image string, command ...string) (id string, err error) {
	id, err = a.rt.Create(a.ctx, p.id, embedded.ContainerConfig(p.config, name, attempt, image, command...))
	if err != nil {
		return "", err
	}
	return id, a.rt.Start(a.ctx, id)
}

// wait waits until the container has ended.
func (a *actor) wait(id string) error {
	_, err := a.rt.Wait(a.ctx, id)
	return err
}

// remove takes a pod down as the kubelet does: its containers get time to end,
// then all is removed. Two transitions, and one or two for each container.
func (a *actor) remove(p pod, containers ...string) error {
	for _, id := range containers {
		if err := a.rt.Stop(a.ctx, id, grace); err != nil {
			return err
		}
	}
	if err := a.rt.RemovePod(a.ctx, p.id); err != nil {
		return err
	}
	delete(a.pods, p.id)
	return nil
}

const grace = 30 * time.Second

func (a *actor) uuid() string {
	hi, lo := a.rng.Uint64(), a.rng.Uint64()
	hi = hi&^0xf000 | 0x4000         // version 4
	lo = lo&^(3<<62) | uint64(2)<<62 // of the usual variant
	return fmt.Sprintf("%08x-%04x-%04x-%04x-%012x", hi>>32, hi>>16&0xffff, hi&0xffff, lo>>48, lo&0xffffffffffff)
}

// suffix gives n letters as Kubernetes draws them for names: none that could make
// a word.
func (a *actor) suffix(n int) string {
	const letters = "bcdfghjklmnpqrstvwxz2456789"
	b := make([]byte, n)
	for i := range b {
		b[i] = letters[a.rng.IntN(len(letters))]
	}
	return string(b)
}

// pick chooses a name by the actor's round, with a number once they are used up.
func (a *actor) pick(names ...string) string {
	if a.round < len(names) {
		return names[a.round]
	}
	return fmt.Sprintf("%s-%d", names[a.round%len(names)], a.round/len(names)+1)
}
