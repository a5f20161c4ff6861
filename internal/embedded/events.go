package embedded

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const methodEvents = "GetContainerEvents"

// publish sends an event about a container of s, or s itself, to whoever
// subscribed. Runtime.op is held.
func (r *Runtime) publish(s *sandbox, id string, what runtimeapi.ContainerEventType) {
	if !r.events.heard() {
		return
	}
	ev := &runtimeapi.ContainerEventResponse{
		ContainerId:        id,
		ContainerEventType: what,
		CreatedAt:          time.Now().UnixNano(),
		PodSandboxStatus:   s.view.full,
	}
	for _, c := range s.containers {
		ev.ContainersStatuses = append(ev.ContainersStatuses, c.view.full)
	}
	r.events.publish(timedEvent{ev, time.Now().Add(r.draw(r.lag.Event))})
}

// hub hands events to the subscribers and waits for none of them. containerd
// waits, and then all its events wait for the slowest reader.
type hub struct {
	buffer int

	mu     sync.Mutex
	subs   map[*subscription]struct{}
	closed error
}

// timedEvent is an event and when it may be sent.
type timedEvent struct {
	ev  *runtimeapi.ContainerEventResponse
	due time.Time
}

// subscription is one reader. The hub closes queue when it is over, for the
// reason err.
type subscription struct {
	queue chan timedEvent
	err   error
	// left are events taken off the queue but not handed out yet.
	left []*runtimeapi.ContainerEventResponse
}

func (h *hub) init(buffer int) {
	if buffer <= 0 {
		buffer = 1000
	}
	h.buffer = buffer
	h.subs = map[*subscription]struct{}{}
}

func (h *hub) heard() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.subs) > 0
}

func (h *hub) subscribe() (*subscription, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed != nil {
		return nil, h.closed
	}
	s := &subscription{queue: make(chan timedEvent, h.buffer)}
	h.subs[s] = struct{}{}
	return s, nil
}

func (h *hub) unsubscribe(s *subscription) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.subs, s)
}

func (h *hub) publish(ev timedEvent) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for s := range h.subs {
		select {
		case s.queue <- ev:
		default:
			h.end(s, status.Errorf(codes.ResourceExhausted,
				"%d events were waiting to be read: the stream is cut off", h.buffer))
		}
	}
}

func (h *hub) close(why error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = why
	for s := range h.subs {
		h.end(s, why)
	}
}

func (h *hub) end(s *subscription, why error) {
	s.err = why
	close(s.queue)
	delete(h.subs, s)
}

// next waits for the next event to send. The error is io.EOF when the stream is
// to end without one.
func (s *subscription) next(ctx context.Context, f *Faults) (*runtimeapi.ContainerEventResponse, error) {
	var waiting *timedEvent
	for {
		fate := f.stream(methodEvents)
		if fate.end {
			if fate.err == nil {
				return nil, io.EOF
			}
			return nil, fate.err
		}
		queue := s.queue
		var ready <-chan time.Time
		var timer *time.Timer
		switch {
		case fate.hang:
			queue = nil
		case len(s.left) > 0:
			ev := s.left[0]
			s.left = s.left[1:]
			return ev, nil
		case waiting != nil:
			queue = nil
			wait := time.Until(waiting.due.Add(fate.delay))
			if wait <= 0 {
				s.left = mangleEvent(waiting.ev, fate.mangles)
				waiting = nil
				continue
			}
			timer = time.NewTimer(wait)
			ready = timer.C
		}
		select {
		case ev, ok := <-queue:
			if !ok {
				return nil, s.err
			}
			waiting = &ev
		case <-ready:
		case <-fate.changed:
		case <-f.done:
			return nil, errClosed()
		case <-ctx.Done():
			return nil, status.FromContextError(ctx.Err()).Err()
		}
		if timer != nil {
			timer.Stop()
		}
	}
}

// streamEvents sends events until the reader, a fault or the runtime ends it. A
// nil error is an end without one.
func (r *Runtime) streamEvents(ctx context.Context, ready func() error, send func(*runtimeapi.ContainerEventResponse) error) (err error) {
	end := r.calls.begin(methodEvents)
	defer func() { end(err) }()
	s, err := r.events.subscribe()
	if err != nil {
		return err
	}
	defer r.events.unsubscribe(s)
	if err := ready(); err != nil {
		return err
	}
	for {
		ev, err := s.next(ctx, r.faults)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := send(ev); err != nil {
			return err
		}
	}
}
