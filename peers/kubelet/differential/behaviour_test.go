package differential

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/relist"
)

// behaviourDifferences are in what random histories leave out: they take time,
// requests, a full channel, or a listing that no runtime should give.
func behaviourDifferences() map[string]func(*testing.T, *stage) {
	inBubble := func(f func(*testing.T, *stage)) func(*testing.T, *stage) {
		return func(t *testing.T, s *stage) {
			synctest.Test(t, func(t *testing.T) { f(t, s) })
		}
	}
	return map[string]func(*testing.T, *stage){
		"full-channel":      inBubble(fullChannel),
		"hanging-status":    inBubble(hangingStatus),
		"vanished-pod":      inBubble(vanishedPod),
		"missing-but-alive": inBubble(missingButAlive),
		"duplicate-id":      inBubble(duplicateID),
		"nil-item":          inBubble(nilItem),
	}
}

func fullChannel(t *testing.T, s *stage) {
	ctx := quiet(t.Context())
	k, o := newKubelet(s, 1), newOurs(t, s, relist.StoreOptions{}, nil)
	defer o.close()
	s.runtime.show(shows(pause(ready), app(running)))
	k.relist(ctx) // which finds two events
	o.relist(ctx)
	time.Sleep(period)
	k.relist(ctx)
	if len(k.order) != 1 {
		t.Errorf("the kubelet told %q, want one event: the other is lost for good", k.order)
	}
	if len(o.events) != 2 {
		t.Errorf("ours told %d events, want 2", len(o.events))
	}
}

func hangingStatus(t *testing.T, s *stage) {
	hang := make(chan struct{})
	s.runtime.hang, s.runtime.hangs = hang, "c"
	defer func() { s.runtime.hang = nil }()
	ctx := quiet(t.Context())
	k, o := newKubelet(s, 1000), newOurs(t, s, relist.StoreOptions{}, nil)
	defer o.close()
	other := thing{id: "c2", pod: "p2", sandbox: "s2", name: "app", state: running}

	s.runtime.show(shows(app(running)))
	returned := make(chan struct{})
	go func() {
		defer close(returned)
		k.generic.Relist(ctx)
	}()
	o.relist(ctx)
	time.Sleep(period)
	s.runtime.show(shows(app(running), other))
	o.relist(ctx)
	time.Sleep(time.Minute)
	select {
	case <-returned:
		t.Error("the kubelet's relist did not wait for a status that hangs")
	default:
	}
	for id, want := range map[string]event.StatusMissing{"c": event.StatusLate, "c2": ""} {
		i := slices.IndexFunc(o.events, func(e event.Event) bool { return e.ID == id+"/ContainerStarted" })
		if i < 0 {
			t.Errorf("ours did not tell that %s started while the status of c hangs", id)
		} else if got := o.events[i].StatusMissing; got != want {
			t.Errorf("the start of %s has its details missing as %q, want %q", id, got, want)
		}
	}
	close(hang)
	<-returned
}

func vanishedPod(t *testing.T, s *stage) {
	ctx := quiet(t.Context())
	k, o := newKubelet(s, 1000), newOurs(t, s, relist.StoreOptions{}, nil)
	defer o.close()
	s.runtime.show(shows(app(running)))
	k.generic.Start(ctx)
	defer k.generic.Stop()
	synctest.Wait()
	o.relist(ctx)

	s.runtime.show(shows())
	time.Sleep(period / 2)
	k.generic.RequestRelist(logr.Discard(), "p")
	synctest.Wait()
	k.drain()
	if got, want := types(k.told["c"]), []event.Type{event.ContainerStarted}; !slices.Equal(got, want) {
		t.Errorf("after a request the kubelet told %v, want %v", got, want)
	}
	o.engine.Relist(ctx, relist.Request{PodUID: "p", Reason: "request"})
	synctest.Wait()
	all := []event.Type{event.ContainerStarted, event.ContainerDied, event.ContainerRemoved}
	if got := types(o.told()["c"]); !slices.Equal(got, all) {
		t.Errorf("after a request ours told %v, want %v", got, all)
	}
	time.Sleep(period)
	synctest.Wait()
	k.drain()
	if got := types(k.told["c"]); !slices.Equal(got, all) {
		t.Errorf("after the next relist of everything the kubelet told %v, want %v", got, all)
	}
}

func missingButAlive(t *testing.T, s *stage) {
	ctx := quiet(t.Context())
	alive := func(id string) (alive, known bool) { return id == "c", true }
	k, o := newKubelet(s, 1000), newOurs(t, s, relist.StoreOptions{Alive: alive, MissingGrace: time.Minute}, nil)
	defer o.close()
	both := func() {
		k.relist(ctx)
		o.relist(ctx)
		time.Sleep(period)
	}
	s.runtime.show(shows(app(running)))
	both()
	s.runtime.show(shows())
	both()
	all := []event.Type{event.ContainerStarted, event.ContainerDied, event.ContainerRemoved}
	if got := types(k.told["c"]); !slices.Equal(got, all) {
		t.Errorf("the kubelet told %v, want %v", got, all)
	}
	if got, want := types(o.told()["c"]), []event.Type{event.ContainerStarted}; !slices.Equal(got, want) {
		t.Errorf("ours told %v of what the kernel shows alive, want %v", got, want)
	}
	time.Sleep(time.Minute)
	both()
	if got := types(o.told()["c"]); !slices.Equal(got, all) {
		t.Errorf("a minute later ours told %v, want %v", got, all)
	}
}

func duplicateID(t *testing.T, s *stage) {
	ctx := quiet(t.Context())
	k, o := newKubelet(s, 1000), newOurs(t, s, relist.StoreOptions{}, nil)
	defer o.close()
	older, newer := app(running), app(exited)
	newer.createdAt++
	s.runtime.show(shows(older, newer))
	k.relist(ctx)
	o.relist(ctx)
	if got, want := types(k.told["c"]), []event.Type{event.ContainerDied}; !slices.Equal(got, want) {
		t.Errorf("the kubelet told %v, want that of the newest entry: %v", got, want)
	}
	if got, want := types(o.told()["c"]), []event.Type{event.ContainerStarted}; !slices.Equal(got, want) {
		t.Errorf("ours told %v, want that of the first entry: %v", got, want)
	}
}

func nilItem(t *testing.T, s *stage) {
	s.runtime.nilItem = true
	defer func() { s.runtime.nilItem = false }()
	ctx := quiet(t.Context())
	k, o := newKubelet(s, 1000), newOurs(t, s, relist.StoreOptions{}, nil)
	defer o.close()
	s.runtime.show(shows(app(running)))
	if !panics(ctx, k) {
		t.Error("the kubelet did not panic")
	}
	o.relist(ctx)
	if got, want := types(o.told()["c"]), []event.Type{event.ContainerStarted}; !slices.Equal(got, want) {
		t.Errorf("ours told %v, want %v", got, want)
	}
}

func panics(ctx context.Context, k *kubelet) (panicked bool) {
	defer func() { panicked = recover() != nil }()
	k.relist(ctx)
	return false
}
