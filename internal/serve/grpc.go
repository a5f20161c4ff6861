package serve

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	hybridplegv1 "github.com/hybrid-pleg/hybrid-pleg/api/hybridpleg/v1"
	"github.com/hybrid-pleg/hybrid-pleg/internal/filter"
	"github.com/hybrid-pleg/hybrid-pleg/internal/wire"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/merge"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// service is PodLifecycleService.
type service struct {
	hybridplegv1.UnimplementedPodLifecycleServiceServer
	server *Server
}

// Watch implements the API.
func (s service) Watch(req *hybridplegv1.WatchRequest, stream grpc.ServerStreamingServer[hybridplegv1.WatchResponse]) error {
	f, err := newFilter(req.GetFilter())
	if err != nil {
		return err
	}
	var since merge.Token
	if req.GetSince() != "" {
		if since, err = merge.ParseToken(req.GetSince()); err != nil {
			return status.Error(codes.InvalidArgument, "since: "+err.Error())
		}
	}
	fo, err := s.server.open(formGRPC, since, f)
	if err != nil {
		return s.server.grpcError(err)
	}
	defer fo.close()
	ctx, stop := s.server.untilEnd(stream.Context())
	defer stop()
	return s.server.grpcError(fo.run(ctx, &grpcSink{server: s.server, stream: stream}))
}

// newFilter makes a filter of a message; the error is a status.
func newFilter(m *hybridplegv1.Filter) (*filter.Filter, error) {
	spec, err := filter.FromProto(m)
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	f, err := filter.New(spec)
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	return f, nil
}

// GetPod implements the API.
func (s service) GetPod(_ context.Context, req *hybridplegv1.GetPodRequest) (*hybridplegv1.GetPodResponse, error) {
	if req.GetUid() == "" {
		return nil, status.Error(codes.InvalidArgument, "uid is required")
	}
	snapshot := s.server.backend.Snapshot()
	p := findPod(&snapshot, req.GetUid())
	if p == nil {
		return nil, status.Errorf(codes.NotFound, "there is no pod with the UID %.100q on this node", req.GetUid())
	}
	resp := &hybridplegv1.GetPodResponse{Pod: wire.Pod(p), Token: snapshot.Token.String()}
	if err := s.server.checkSize(proto.Size(resp), "pod", p.Pod.UID); err != nil {
		return nil, err
	}
	return resp, nil
}

func findPod(s *merge.Snapshot, uid string) *event.PodStatus {
	for i := range s.Pods {
		if s.Pods[i].Pod.UID == uid {
			return &s.Pods[i]
		}
	}
	return nil
}

// GetInfo implements the API.
func (s service) GetInfo(context.Context, *hybridplegv1.GetInfoRequest) (*hybridplegv1.GetInfoResponse, error) {
	return s.server.info().proto(), nil
}

// grpcError turns what ended a call into a status.
func (s *Server) grpcError(err error) error {
	if _, ok := status.FromError(err); ok {
		return err
	}
	switch {
	case errors.Is(err, errEnding):
		return status.Error(codes.Unavailable, errEnding.Error())
	case errors.Is(err, errFull):
		return status.Error(codes.ResourceExhausted, s.tooManyWatchers())
	case errors.Is(err, merge.ErrBadToken):
		return status.Error(codes.InvalidArgument, "since: "+err.Error())
	case errors.Is(err, context.Canceled):
		return status.FromContextError(context.Canceled).Err()
	case errors.Is(err, context.DeadlineExceeded):
		return status.FromContextError(context.DeadlineExceeded).Err()
	default:
		return status.Error(codes.Internal, err.Error())
	}
}

func (s *Server) tooManyWatchers() string {
	return fmt.Sprintf("%d watches are open, which is as many as --max-watchers allows: close one, or raise it", s.limits.Watchers)
}

// grpcSink writes protobuf messages.
type grpcSink struct {
	server *Server
	stream grpc.ServerStream
}

func (g *grpcSink) event(e *event.Event) error {
	data, err := g.server.cache.proto(e)
	if err != nil {
		return err
	}
	return g.send(data, "event", e.ID)
}

func (g *grpcSink) pod(p *event.PodStatus) error {
	return g.item(&hybridplegv1.WatchResponse{Item: &hybridplegv1.WatchResponse_Pod{Pod: wire.Pod(p)}},
		"pod", p.Pod.UID)
}

func (g *grpcSink) synced(t merge.Token) error {
	return g.item(&hybridplegv1.WatchResponse{Token: t.String(),
		Item: &hybridplegv1.WatchResponse_Synced{Synced: &hybridplegv1.Synced{}}}, "synced", t.String())
}

func (g *grpcSink) expired(since merge.Token) error {
	return g.item(&hybridplegv1.WatchResponse{
		Item: &hybridplegv1.WatchResponse_Expired{Expired: &hybridplegv1.Expired{Since: since.String()}}}, "expired", since.String())
}

func (g *grpcSink) bookmark(t merge.Token) error {
	return g.item(&hybridplegv1.WatchResponse{Token: t.String(),
		Item: &hybridplegv1.WatchResponse_Bookmark{Bookmark: &hybridplegv1.Bookmark{}}}, "bookmark", t.String())
}

// flush does nothing: the transport sends as soon as nothing more is to be sent.
func (g *grpcSink) flush() error { return nil }

// beat does nothing: keepalive finds dead connections.
func (g *grpcSink) beat() error { return nil }

func (g *grpcSink) item(m *hybridplegv1.WatchResponse, kind, name string) error {
	data, err := proto.Marshal(m)
	if err != nil {
		return err
	}
	return g.send(data, kind, name)
}

func (g *grpcSink) send(data []byte, kind, name string) error {
	if err := g.server.checkSize(len(data), kind, name); err != nil {
		return err
	}
	return g.stream.SendMsg(raw(data))
}

// checkSize refuses a message that is too large, which is that of a pod or an event.
// gRPC would do so itself, but name neither that nor the flag, and after the call was
// counted as a good one.
func (s *Server) checkSize(bytes int, kind, name string) error {
	if bytes <= s.limits.MessageSize {
		return nil
	}
	s.metrics.rejected.WithLabelValues(limitMessageSize).Inc()
	return status.Errorf(codes.ResourceExhausted,
		"the message with %s %s takes %d bytes, --max-message-size allows %d: raise it, leave this one out by a filter, or ask over HTTP, which knows no such bound",
		kind, name, bytes, s.limits.MessageSize)
}

// untilEnd returns a context that ends with the call's, or when watches are to end.
func (s *Server) untilEnd(ctx context.Context) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	unhook := context.AfterFunc(s.ending, func() { cancel(errEnding) })
	return ctx, func() {
		unhook()
		cancel(nil)
	}
}

// retryAfter is the time to wait as a header's value, in whole seconds.
func retryAfter(h http.Header, d time.Duration) {
	h.Set("Retry-After", fmt.Sprint(max(1, int((d+time.Second-1)/time.Second))))
}
