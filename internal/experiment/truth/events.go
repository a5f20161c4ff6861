package truth

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/internal/experiment/clock"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Events follows a runtime's event stream.
type Events struct {
	rt     runtimeapi.RuntimeServiceClient
	ledger *Ledger
	cancel context.CancelFunc
	done   sync.WaitGroup
	seen   atomic.Int64
	breaks atomic.Int64

	mu    sync.Mutex
	err   error         // of the last stream that ended
	first chan struct{} // closed with the first event
}

// again is the pause before a stream that ended is opened again.
const again = 200 * time.Millisecond

// StartEvents follows the stream until Close, opening it again when it ends. Whether
// the runtime has one shows with the first events; see [Events.Works].
func StartEvents(rt runtimeapi.RuntimeServiceClient, ledger *Ledger) *Events {
	ctx, cancel := context.WithCancel(context.Background())
	e := &Events{rt: rt, ledger: ledger, cancel: cancel, first: make(chan struct{})}
	e.done.Go(func() { e.run(ctx) })
	return e
}

func (e *Events) run(ctx context.Context) {
	for {
		err := e.follow(ctx)
		if ctx.Err() != nil {
			return
		}
		e.breaks.Add(1)
		e.mu.Lock()
		e.err = err
		e.mu.Unlock()
		select {
		case <-time.After(again):
		case <-ctx.Done():
			return
		}
	}
}

func (e *Events) follow(ctx context.Context) error {
	stream, err := e.rt.GetContainerEvents(ctx, &runtimeapi.GetEventsRequest{})
	if err != nil {
		return err
	}
	for {
		ev, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return errors.New("the runtime ended its event stream")
		}
		if err != nil {
			return err
		}
		at := clock.Now()
		if what, ok := momentOf(ev.GetContainerEventType()); ok {
			e.ledger.Note(ev.GetContainerId(), what, at)
		}
		if e.seen.Add(1) == 1 {
			close(e.first)
		}
	}
}

func momentOf(t runtimeapi.ContainerEventType) (Moment, bool) {
	switch t {
	case runtimeapi.ContainerEventType_CONTAINER_CREATED_EVENT:
		return ShownCreated, true
	case runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT:
		return ShownRunning, true
	case runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT:
		return ShownExited, true
	case runtimeapi.ContainerEventType_CONTAINER_DELETED_EVENT:
		return ShownRemoved, true
	default:
		return 0, false
	}
}

// Works waits for the first event, which must have a cause by now. The error says why
// there is none.
func (e *Events) Works(ctx context.Context, patience time.Duration) error {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-e.first:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err != nil {
		return fmt.Errorf("the runtime's event stream can't be had: %w", e.err)
	}
	return errors.New("the runtime's event stream brings no events")
}

// Breaks is how often the stream ended and had to be opened again: what happened
// meanwhile was not observed.
func (e *Events) Breaks() int { return int(e.breaks.Load()) }

// Close ends the stream.
func (e *Events) Close() {
	e.cancel()
	e.done.Wait()
}
