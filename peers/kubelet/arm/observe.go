package arm

import (
	"context"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	"k8s.io/apimachinery/pkg/types"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
	"k8s.io/kubernetes/pkg/kubelet/pleg"
)

// observation is what one relist of the generator listed. The pods are the
// generator's own records: read only.
type observation struct {
	at      time.Time // when it was begun
	foundBy event.FoundBy
	pods    []*kubecontainer.Pod
}

// all reports whether it shows everything, so that what it lacks is gone.
func (o *observation) all() bool { return o.foundBy != event.FoundEarly }

// observedRuntime puts a mark into the generator's channel after each listing. The
// generator lists and sends from one goroutine, so an event belongs to the last mark
// before it, however late it is read.
type observedRuntime struct {
	kubecontainer.Runtime
	events chan *pleg.PodLifecycleEvent
	listed bool // used by the generator's goroutine alone
}

// GetPods is called for a relist of everything.
func (r *observedRuntime) GetPods(ctx context.Context, all bool) ([]*kubecontainer.Pod, error) {
	at := time.Now()
	pods, err := r.Runtime.GetPods(ctx, all)
	if err != nil {
		return nil, err
	}
	o := &observation{at: at, foundBy: event.FoundPeriodic, pods: pods}
	if !r.listed {
		o.foundBy, r.listed = event.FoundStartup, true
	}
	r.mark(o)
	return pods, nil
}

// GetPod is called for a relist of one pod, which only the evented generator asks
// for.
func (r *observedRuntime) GetPod(ctx context.Context, uid types.UID) (*kubecontainer.Pod, error) {
	at := time.Now()
	pod, err := r.Runtime.GetPod(ctx, uid)
	if err != nil {
		return nil, err
	}
	r.mark(&observation{at: at, foundBy: event.FoundEarly, pods: []*kubecontainer.Pod{pod}})
	return pod, nil
}

// mark drops the mark when the channel is full. The generator is about to do the
// same with its events, and must not be held up where the kubelet's would not be.
func (r *observedRuntime) mark(o *observation) {
	select {
	case r.events <- &pleg.PodLifecycleEvent{Type: listedMark, Data: o}:
	default:
	}
}

// listedMark is no type of the kubelet's.
const listedMark pleg.PodLifeCycleEventType = "listed"
