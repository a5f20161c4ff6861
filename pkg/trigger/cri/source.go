package cri

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/trigger"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Runtime is what the source needs of a CRI runtime. relist's Client and
// k8s.io/cri-client's RuntimeService have it.
type Runtime interface {
	// GetContainerEvents sends the runtime's events to events until the stream ends.
	GetContainerEvents(ctx context.Context, events chan *runtimeapi.ContainerEventResponse,
		established func(runtimeapi.RuntimeService_GetContainerEventsClient)) error
}

// Source is the event stream as a [trigger.Source].
type Source struct {
	rt Runtime
	// worked: a stream has been open for long enough, or brought an event.
	worked bool
}

// New returns a source that follows rt's events.
func New(rt Runtime) *Source { return &Source{rt: rt} }

// Name implements [trigger.Source].
func (s *Source) Name() trigger.SourceName { return trigger.SourceCRI }

// provenAfter is how long a stream must have been open before it counts as
// working. gRPC opens streams lazily: a runtime that does not offer events, or
// where they are switched off, shows so only by ending the stream at once.
const provenAfter = time.Second

// errAtOnce says that a stream ended properly before it had proven to work.
var errAtOnce = errors.New("the runtime ended its event stream at once")

// Run implements [trigger.Source].
func (s *Source) Run(ctx context.Context, sink trigger.Sink) error {
	err := s.follow(ctx, sink)
	if !errors.Is(err, errAtOnce) || s.worked {
		return err
	}
	// So does a runtime that happens to be stopped just then: it takes two to say
	// that events are switched off.
	select {
	case <-time.After(provenAfter):
	case <-ctx.Done():
		return nil
	}
	if err = s.follow(ctx, sink); errors.Is(err, errAtOnce) {
		return fmt.Errorf("%w: %w; CRI-O needs enable_pod_events = true", trigger.ErrUnsupported, err)
	}
	return err
}

// follow follows one stream until it ends.
func (s *Source) follow(ctx context.Context, sink trigger.Sink) error {
	events := make(chan *runtimeapi.ContainerEventResponse, 128)
	ended := make(chan error, 1)
	opened := make(chan struct{}, 1)
	go func() {
		ended <- s.rt.GetContainerEvents(ctx, events, func(runtimeapi.RuntimeService_GetContainerEventsClient) {
			select {
			case opened <- struct{}{}:
			default:
			}
		})
	}()

	up := false
	proven := func() {
		if !up {
			up, s.worked = true, true
			sink.Up()
		}
	}
	var timer <-chan time.Time
	for {
		select {
		case <-opened:
			t := time.NewTimer(provenAfter)
			defer t.Stop()
			timer = t.C
		case <-timer:
			proven()
		case e := <-events:
			proven()
			if e == nil {
				continue
			}
			sink.Signal(signalFrom(e, time.Now()))
		case err := <-ended:
			// What is still in the channel does not matter: coming up again makes for
			// a look at everything.
			if ctx.Err() != nil {
				return nil
			}
			return s.explain(err, up)
		}
	}
}

// explain says why the stream ended, and whether it is worth trying again soon.
func (s *Source) explain(err error, up bool) error {
	switch {
	case status.Code(err) == codes.Unimplemented:
		return fmt.Errorf("%w: the runtime offers no event stream: %w", trigger.ErrUnsupported, err)
	case (err == nil || errors.Is(err, io.EOF)) && !up:
		return errAtOnce
	case err == nil:
		err = io.EOF
	}
	return fmt.Errorf("event stream: %w", err)
}

// signalFrom reads an event. Its own time stamp is the runtime's wall clock; for a
// hint, when it arrived will do, and can't be wrong.
func signalFrom(e *runtimeapi.ContainerEventResponse, now time.Time) trigger.Signal {
	sig := trigger.Signal{
		Source:      trigger.SourceCRI,
		Kind:        trigger.KindChanged,
		PodUID:      e.GetPodSandboxStatus().GetMetadata().GetUid(),
		ContainerID: e.GetContainerId(),
		At:          now,
	}
	switch e.GetContainerEventType() {
	case runtimeapi.ContainerEventType_CONTAINER_CREATED_EVENT:
		sig.Kind = trigger.KindCreated
	case runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT:
		sig.Kind = trigger.KindStarted
	case runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT:
		sig.Kind = trigger.KindExited
	case runtimeapi.ContainerEventType_CONTAINER_DELETED_EVENT:
		sig.Kind = trigger.KindRemoved
	}
	return sig
}
