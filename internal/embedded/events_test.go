package embedded

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func TestEventsFollowTheState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRuntime(t, Options{Lag: Lag{Start: Fixed(0), Exit: Fixed(0), Event: Fixed(5 * time.Millisecond)}})
		ctx, stop := context.WithCancel(t.Context())
		first, second := readEvents(ctx, r), readEvents(ctx, r)
		pod, _ := runPod(t, r, "p")
		time.Sleep(4 * time.Millisecond)
		synctest.Wait()
		if got := sandboxStateOf(t, r, pod); got != ready || len(first.lines()) != 0 {
			t.Errorf("after 4ms the sandbox is %v and the events are %q", got, first.lines())
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
		want := []string{
			"sandbox CONTAINER_CREATED_EVENT SANDBOX_READY",
			"sandbox CONTAINER_STARTED_EVENT SANDBOX_READY",
		}
		equalLines(t, "first", first.lines(), want)
		equalLines(t, "second", second.lines(), want)
		stop()
		<-first.over
		<-second.over
		wantCode(t, first.err, codes.Canceled)
	})
}

func TestASlowReaderIsCutOffAndHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRuntime(t, Options{Lag: NoLag(), EventBuffer: 4})
		ctx, stop := context.WithCancel(t.Context())
		quick := readEvents(ctx, r)
		ch := make(chan *runtimeapi.ContainerEventResponse)
		slow := make(chan error)
		go func() { slow <- r.Client().GetContainerEvents(ctx, ch, nil) }()
		synctest.Wait()
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			runPod(t, r, name)
			synctest.Wait()
		}
		if got := len(quick.lines()); got != 10 {
			t.Errorf("the quick reader has %d events, want 10", got)
		}
		// It took one, which it could not hand over, and four were in its buffer.
		for range 5 {
			<-ch
		}
		wantCode(t, <-slow, codes.ResourceExhausted)
		if len(r.events.subs) != 1 {
			t.Errorf("%d subscribers are left, want 1", len(r.events.subs))
		}
		stop()
		<-quick.over
	})
}

func TestMessagesAreNeverChangedAfterwards(t *testing.T) {
	r := newRuntime(t, Options{Lag: NoLag()})
	pod, config := runPod(t, r, "p")
	id := startContainer(t, r, pod, config, "c")
	before, err := r.Client().ListContainers(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	sandboxes, err := r.Client().ListPodSandbox(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	config.Labels["later"] = "x"
	if err := r.SetState(id, unknown); err != nil {
		t.Fatal(err)
	}
	if err := r.StopPod(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	if before[0].State != running || sandboxes[0].State != ready || sandboxes[0].Labels["later"] != "" {
		t.Errorf("a list of before has become %v, %v", before, sandboxes)
	}
	before[0] = nil
	wantState(t, r, id, exited)
}
