package arm

import (
	"slices"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	"k8s.io/apimachinery/pkg/types"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
)

// book knows who is who: the pods as last listed and as listed before that, and
// what was told of. It costs no more than a look at each pod a relist, so that the
// processor time of an arm is the generator's.
type book struct {
	last  observation
	count uint64 // of listings
	pods  map[types.UID]*views
	told  map[string]item
}

// views are the last two listings of a pod; now is nil when the last one of
// everything lacked it.
type views struct {
	now, before *kubecontainer.Pod
	listing     uint64 // the last one that showed it
}

// item is a container or a sandbox as an event names it.
type item struct {
	pod       event.Pod
	sandbox   *event.Sandbox
	container *event.Container // nil for a sandbox
	createdAt time.Time
}

func newBook() *book {
	return &book{pods: make(map[types.UID]*views), told: make(map[string]item)}
}

// note takes in a listing.
func (b *book) note(o *observation) {
	b.last = *o
	b.count++
	for _, pod := range o.pods {
		v := b.pods[pod.ID]
		if v == nil {
			v = &views{}
			b.pods[pod.ID] = v
		}
		v.before, v.now, v.listing = v.now, pod, b.count
	}
	if !o.all() {
		return
	}
	for uid, v := range b.pods {
		switch {
		case v.listing == b.count:
		case v.now != nil:
			v.before, v.now = v.now, nil
		default:
			delete(b.pods, uid)
		}
	}
}

// find returns the container or sandbox that an event of a pod is about. What was
// told before comes first: it may have details that can't be had any more.
func (b *book) find(uid types.UID, id string) item {
	if it, ok := b.told[id]; ok {
		return it
	}
	if v := b.pods[uid]; v != nil {
		for _, pod := range []*kubecontainer.Pod{v.now, v.before} {
			if it, ok := itemOf(pod, id); ok {
				return it
			}
		}
	}
	// Events that were long held back, of something that has never been told of.
	return item{pod: event.Pod{UID: string(uid)}, container: &event.Container{ID: id}}
}

// pod names a pod.
func (b *book) pod(uid types.UID) event.Pod {
	if v := b.pods[uid]; v != nil {
		for _, pod := range []*kubecontainer.Pod{v.now, v.before} {
			if pod != nil {
				return named(pod)
			}
		}
	}
	return event.Pod{UID: string(uid)}
}

func itemOf(pod *kubecontainer.Pod, id string) (item, bool) {
	if pod == nil {
		return item{}, false
	}
	same := func(c *kubecontainer.Container) bool { return c.ID.ID == id }
	if i := slices.IndexFunc(pod.Containers, same); i >= 0 {
		c := pod.Containers[i]
		it := item{
			pod:       named(pod),
			container: &event.Container{ID: id, Name: c.Name, Image: c.Image},
			createdAt: unixNano(c.CreatedAt),
		}
		if c.PodSandboxID != "" {
			it.sandbox = &event.Sandbox{ID: c.PodSandboxID}
		}
		return it, true
	}
	if i := slices.IndexFunc(pod.Sandboxes, same); i >= 0 {
		return item{
			pod:       named(pod),
			sandbox:   &event.Sandbox{ID: id},
			createdAt: unixNano(pod.Sandboxes[i].CreatedAt),
		}, true
	}
	return item{}, false
}

func named(pod *kubecontainer.Pod) event.Pod {
	return event.Pod{UID: string(pod.ID), Namespace: pod.Namespace, Name: pod.Name}
}

func unixNano(ns int64) time.Time {
	if ns <= 0 {
		return time.Time{}
	}
	return time.Unix(0, ns).UTC()
}
