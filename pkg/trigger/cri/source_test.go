package cri

import (
	"context"
	"errors"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/trigger"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type events chan *runtimeapi.ContainerEventResponse

// fakeRuntime plays one stream after another, the last one again and again.
type fakeRuntime struct {
	streams []func(ctx context.Context, out events) error
	// refuses: the stream isn't even opened.
	refuses bool

	mu     sync.Mutex
	opened []time.Time
}

func (r *fakeRuntime) GetContainerEvents(ctx context.Context, out chan *runtimeapi.ContainerEventResponse,
	established func(runtimeapi.RuntimeService_GetContainerEventsClient),
) error {
	r.mu.Lock()
	n := len(r.opened)
	r.opened = append(r.opened, time.Now())
	r.mu.Unlock()
	if !r.refuses {
		established(nil)
	}
	return r.streams[min(n, len(r.streams)-1)](ctx, out)
}

func ends(err error) func(context.Context, events) error {
	return func(context.Context, events) error { return err }
}

func stays(ctx context.Context, _ events) error {
	<-ctx.Done()
	return status.FromContextError(ctx.Err()).Err()
}

type sink struct {
	mu      sync.Mutex
	ups     int
	upAt    time.Time
	signals []trigger.Signal
}

func (s *sink) Up() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ups++
	s.upAt = time.Now()
}

func (s *sink) Signal(sig trigger.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.signals = append(s.signals, sig)
}

func TestEventsBecomeSignals(t *testing.T) {
	pod := &runtimeapi.PodSandboxStatus{Metadata: &runtimeapi.PodSandboxMetadata{Uid: "p1"}}
	tests := []struct {
		event *runtimeapi.ContainerEventResponse
		kind  trigger.Kind // empty: no signal
		pod   string
	}{
		{&runtimeapi.ContainerEventResponse{ContainerId: "c", ContainerEventType: runtimeapi.ContainerEventType_CONTAINER_CREATED_EVENT, PodSandboxStatus: pod}, trigger.KindCreated, "p1"},
		{&runtimeapi.ContainerEventResponse{ContainerId: "c", ContainerEventType: runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT, PodSandboxStatus: pod}, trigger.KindStarted, "p1"},
		{&runtimeapi.ContainerEventResponse{ContainerId: "c", ContainerEventType: runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT, PodSandboxStatus: pod}, trigger.KindExited, "p1"},
		{&runtimeapi.ContainerEventResponse{ContainerId: "c", ContainerEventType: runtimeapi.ContainerEventType_CONTAINER_DELETED_EVENT, PodSandboxStatus: pod}, trigger.KindRemoved, "p1"},
		{&runtimeapi.ContainerEventResponse{ContainerId: "c", ContainerEventType: 77}, trigger.KindChanged, ""},
		{&runtimeapi.ContainerEventResponse{ContainerId: "c", PodSandboxStatus: &runtimeapi.PodSandboxStatus{}}, trigger.KindCreated, ""},
		{nil, "", ""},
	}
	for _, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			rt := &fakeRuntime{streams: []func(context.Context, events) error{func(ctx context.Context, out events) error {
				out <- tt.event
				return stays(ctx, out)
			}}}
			var got sink
			done := make(chan error, 1)
			go func() { done <- New(rt).Run(ctx, &got) }()
			synctest.Wait()
			cancel()
			if err := <-done; err != nil {
				t.Errorf("Run: %v", err)
			}
			if got.ups != 1 {
				t.Errorf("came up %d times with the first event", got.ups)
			}
			if tt.kind == "" {
				if len(got.signals) != 0 {
					t.Errorf("signals %v", got.signals)
				}
				return
			}
			want := trigger.Signal{Source: trigger.SourceCRI, Kind: tt.kind, PodUID: tt.pod, ContainerID: "c", At: time.Now()}
			if len(got.signals) != 1 || got.signals[0] != want {
				t.Errorf("signals %v, not %v", got.signals, want)
			}
		})
	}
}

func TestEndOfStream(t *testing.T) {
	broken := status.Error(codes.Unavailable, "connection refused")
	afterAWhile := func(ctx context.Context, _ events) error {
		<-time.After(3 * time.Second)
		return io.EOF
	}
	tests := []struct {
		name        string
		streams     []func(context.Context, events) error
		refuses     bool
		unsupported bool
		wraps       error
		streamsWant int
		ups         int
	}{
		{name: "at once, and again", streams: []func(context.Context, events) error{ends(io.EOF)}, unsupported: true, streamsWant: 2},
		{name: "at once, without an error", streams: []func(context.Context, events) error{ends(nil)}, unsupported: true, streamsWant: 2},
		{name: "at once, then an error", streams: []func(context.Context, events) error{ends(io.EOF), ends(broken)}, wraps: broken, streamsWant: 2},
		{name: "at once, then after a while", streams: []func(context.Context, events) error{ends(io.EOF), afterAWhile}, wraps: io.EOF, streamsWant: 2, ups: 1},
		{name: "after a while", streams: []func(context.Context, events) error{afterAWhile}, wraps: io.EOF, streamsWant: 1, ups: 1},
		{name: "unimplemented", streams: []func(context.Context, events) error{ends(status.Error(codes.Unimplemented, "unknown method"))}, unsupported: true, streamsWant: 1},
		{name: "no runtime", streams: []func(context.Context, events) error{ends(broken)}, refuses: true, wraps: broken, streamsWant: 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rt := &fakeRuntime{streams: tt.streams, refuses: tt.refuses}
				var got sink
				err := New(rt).Run(t.Context(), &got)
				if err == nil || errors.Is(err, trigger.ErrUnsupported) != tt.unsupported {
					t.Errorf("error %v", err)
				}
				if tt.wraps != nil && !errors.Is(err, tt.wraps) {
					t.Errorf("error %v does not wrap %v", err, tt.wraps)
				}
				if len(rt.opened) != tt.streamsWant || got.ups != tt.ups {
					t.Errorf("%d streams, up %d times", len(rt.opened), got.ups)
				}
			})
		})
	}
}

// TestEndAfterItWorked has a stream that worked end at once when opened anew, as
// while the runtime is restarted: that must not count as events switched off.
func TestEndAfterItWorked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := &fakeRuntime{streams: []func(context.Context, events) error{
			func(_ context.Context, out events) error {
				out <- &runtimeapi.ContainerEventResponse{ContainerId: "c"}
				<-time.After(time.Millisecond)
				return io.EOF
			},
			ends(io.EOF),
		}}
		src := New(rt)
		for range 3 {
			if err := src.Run(t.Context(), &sink{}); err == nil || errors.Is(err, trigger.ErrUnsupported) {
				t.Errorf("error %v", err)
			}
		}
		if len(rt.opened) != 3 {
			t.Errorf("%d streams in three runs", len(rt.opened))
		}
	})
}

func TestUpWhenProven(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		began := time.Now()
		var got sink
		done := make(chan error, 1)
		go func() {
			done <- New(&fakeRuntime{streams: []func(context.Context, events) error{stays}}).Run(ctx, &got)
		}()
		<-time.After(time.Minute)
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
		if got.ups != 1 || got.upAt.Sub(began) != provenAfter {
			t.Errorf("up %d times, %v after the start", got.ups, got.upAt.Sub(began))
		}
	})
}

// TestEndWithFullChannel ends the context while the runtime has more events than the
// channel holds: cri-client sends without watching the context.
func TestEndWithFullChannel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		rt := &fakeRuntime{streams: []func(context.Context, events) error{func(ctx context.Context, out events) error {
			cancel()
			for range 1000 {
				out <- &runtimeapi.ContainerEventResponse{ContainerId: "c"}
			}
			return ctx.Err()
		}}}
		if err := New(rt).Run(ctx, &sink{}); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

// TestEndWhileWaiting ends the context between the two streams of a runtime that
// ends them at once.
func TestEndWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(provenAfter/2, cancel)
		rt := &fakeRuntime{streams: []func(context.Context, events) error{ends(io.EOF)}}
		if err := New(rt).Run(ctx, &sink{}); err != nil || len(rt.opened) != 1 {
			t.Errorf("Run: %v after %d streams", err, len(rt.opened))
		}
	})
}
