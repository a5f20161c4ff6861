package differential

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/hybrid-pleg/hybrid-pleg/peers/kubelet/upstream"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/merge"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/relist"
	internalapi "k8s.io/cri-api/pkg/apis"
	"k8s.io/klog/v2"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
	"k8s.io/kubernetes/pkg/kubelet/pleg"
	"k8s.io/utils/clock"
)

// period is the pause between relists, on the bubble's clock.
const period = time.Second

// told is an event as the kubelet's generators have it, and the relist that told it,
// counted from 1.
type told struct {
	relist int
	typ    event.Type
}

// sequences are what was told of each container and sandbox, in order.
type sequences map[string][]told

// types leaves out when it was told.
func types(seq []told) []event.Type {
	out := make([]event.Type, len(seq))
	for i := range seq {
		out[i] = seq[i].typ
	}
	return out
}

// stage is a fake runtime and the kubelet's manager over it. It serves one history
// after another.
type stage struct {
	runtime *fakeRuntime
	manager kubecontainer.Runtime
}

func newStage(t testing.TB) *stage {
	t.Helper()
	s := &stage{runtime: &fakeRuntime{}}
	var err error
	s.manager, err = upstream.NewRuntime(quiet(t.Context()), s.runtime, struct {
		internalapi.ImageManagerService
	}{}, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// quiet keeps the kubelet from logging each error that a history has.
func quiet(ctx context.Context) context.Context {
	return klog.NewContext(ctx, logr.Discard())
}

// kubelet is the kubelet's generator, stepped by its Relist.
type kubelet struct {
	generic *pleg.GenericPLEG
	events  chan *pleg.PodLifecycleEvent
	relists int
	told    sequences
	// order is all that was told, as "type id"; pods are the pods that it was told of.
	order []string
	pods  map[string]string
	syncs int
}

func newKubelet(s *stage, capacity int) *kubelet {
	k := &kubelet{events: make(chan *pleg.PodLifecycleEvent, capacity), told: make(sequences), pods: make(map[string]string)}
	k.generic = pleg.NewGenericPLEG(s.manager, k.events,
		&pleg.RelistDuration{RelistPeriod: period, RelistThreshold: 3 * time.Minute},
		kubecontainer.NewCache(), clock.RealClock{}).(*pleg.GenericPLEG)
	return k
}

func (k *kubelet) relist(ctx context.Context) {
	k.relists++
	k.generic.Relist(ctx)
	k.drain()
}

// drain takes what is in the channel.
func (k *kubelet) drain() {
	for {
		select {
		case e := <-k.events:
			if id, ok := e.Data.(string); ok {
				k.told[id] = append(k.told[id], told{k.relists, event.Type(e.Type)})
				k.order = append(k.order, string(e.Type)+" "+id)
				k.pods[id] = string(e.ID)
			} else {
				k.syncs++
			}
		default:
			return
		}
	}
}

// ours is hybrid-pleg's generator without triggers, stepped by its engine's Relist.
// It must be used in a synctest bubble.
type ours struct {
	engine *relist.Engine
	log    *merge.Log
	events []event.Event
	// relists counts those begun; when says for each event in which it was told.
	relists int
	when    []int
	syncs   int
}

// newOurs returns a generator; spoil, when not nil, may alter what relist hands to
// merge.
func newOurs(t testing.TB, s *stage, store relist.StoreOptions, spoil func([]relist.Change) []relist.Change) *ours {
	t.Helper()
	o := &ours{}
	var err error
	o.log, err = merge.New(merge.Options{OnEvent: func(e *event.Event) {
		if e.Type == event.PodSync {
			o.syncs++
			return
		}
		o.events, o.when = append(o.events, *e), append(o.when, o.relists)
	}})
	if err != nil {
		t.Fatal(err)
	}
	o.engine, err = relist.New(relist.Options{
		Runtime: s.runtime,
		Store:   store,
		Sink: func(changes []relist.Change) {
			if spoil != nil {
				changes = spoil(changes)
			}
			o.log.Publish(changes)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func (o *ours) relist(ctx context.Context) {
	o.relists++
	o.engine.Relist(ctx, relist.Request{Periodic: true, Reason: "period"})
	synctest.Wait() // until what was found is told
}

func (o *ours) close() {
	o.engine.Close()
	o.log.Close()
}

// told maps the events down to the kubelet's types, without the inferred ones.
func (o *ours) told() sequences {
	out := make(sequences)
	for i := range o.events {
		e := &o.events[i]
		typ := e.Type.Kubelet()
		if e.Inferred || typ == "" {
			continue
		}
		id := itemID(e)
		out[id] = append(out[id], told{o.when[i], typ})
	}
	return out
}

// itemID is the ID of the container or sandbox that an event is about.
func itemID(e *event.Event) string {
	if e.Container != nil {
		return e.Container.ID
	}
	return e.Sandbox.ID
}

// playBoth plays a history to the kubelet's generator and to hybrid-pleg's, at the
// same time. It returns both as they are at the end.
func (s *stage) playBoth(t *testing.T, h history, spoil func([]relist.Change) []relist.Change) (k *kubelet, o *ours) {
	synctest.Test(t, func(t *testing.T) {
		ctx := quiet(t.Context())
		k, o = newKubelet(s, 1000), newOurs(t, s, relist.StoreOptions{}, spoil)
		defer o.close()
		for i := range h {
			s.runtime.show(h[i])
			k.relist(ctx)
			o.relist(ctx)
			time.Sleep(period) // on the bubble's clock, so that no two relists are of one moment
		}
		synctest.Wait()
	})
	return k, o
}

// playKubelet plays a history to the kubelet's generator alone.
func (s *stage) playKubelet(ctx context.Context, h history) sequences {
	k := newKubelet(s, 1000)
	for i := range h {
		s.runtime.show(h[i])
		k.relist(quiet(ctx))
	}
	return k.told
}
