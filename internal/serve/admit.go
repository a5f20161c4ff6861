package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path"
	"runtime/debug"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
)

// admit takes one request from the bucket, or says how long to wait for the next.
func (s *Server) admit() (ok bool, wait time.Duration) {
	now := time.Now()
	// Not by a reservation that is then cancelled: of those made at the same time, all
	// but the last give nothing back.
	if s.bucket.AllowN(now, 1) {
		return true, 0
	}
	s.metrics.rejected.WithLabelValues(limitRequests).Inc()
	missing := 1 - s.bucket.TokensAt(now)
	wait = time.Duration(missing / s.limits.RequestsPerSecond * float64(time.Second))
	return false, max(wait, time.Millisecond) // another's token may have come meanwhile
}

func (s *Server) tooManyRequests() string {
	return fmt.Sprintf("more than %g requests a second, which is what --max-requests-per-second allows all clients together: try again later", s.limits.RequestsPerSecond)
}

// admitCall is admit for gRPC. Probes of health are let through: a crowd of clients
// must not make the daemon look dead.
func (s *Server) admitCall(method string) error {
	if method == healthpb.Health_Check_FullMethodName {
		return nil
	}
	ok, wait := s.admit()
	if ok {
		return nil
	}
	st := status.New(codes.ResourceExhausted, s.tooManyRequests())
	detailed, err := st.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(wait)})
	if err != nil {
		return st.Err()
	}
	return detailed.Err()
}

func (s *Server) unaryCall(ctx context.Context, req any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (resp any, err error) {
	defer func() { err = s.ended(info.FullMethod, err, recover()) }()
	if err := s.admitCall(info.FullMethod); err != nil {
		return nil, err
	}
	return handle(ctx, req)
}

func (s *Server) streamCall(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) (err error) {
	defer func() { err = s.ended(info.FullMethod, err, recover()) }()
	if err := s.admitCall(info.FullMethod); err != nil {
		return err
	}
	return handle(srv, receiving{stream, s})
}

// receiving is a stream whose requests that are too large are counted.
type receiving struct {
	grpc.ServerStream
	server *Server
}

func (r receiving) RecvMsg(m any) error {
	return r.server.received(r.ServerStream.RecvMsg(m))
}

// received counts what the transport refused because it is too large, which is all
// that it has this code for.
func (s *Server) received(err error) error {
	if status.Code(err) == codes.ResourceExhausted {
		s.metrics.rejected.WithLabelValues(limitMessageSize).Inc()
	}
	return err
}

// registrar registers services such that the requests to their unary methods are
// counted, too, when they can't be read: these don't get as far as an interceptor.
type registrar struct {
	*grpc.Server
	server *Server
}

// RegisterService implements [grpc.ServiceRegistrar].
func (r registrar) RegisterService(desc *grpc.ServiceDesc, impl any) {
	counted := *desc
	counted.Methods = make([]grpc.MethodDesc, len(desc.Methods))
	for i, m := range desc.Methods {
		name, handle := "/"+desc.ServiceName+"/"+m.MethodName, m.Handler
		m.Handler = func(srv any, ctx context.Context, read func(any) error, through grpc.UnaryServerInterceptor) (any, error) {
			return handle(srv, ctx, func(req any) error {
				err := r.server.received(read(req))
				if err != nil {
					err = r.server.ended(name, err, nil)
				}
				return err
			}, through)
		}
		counted.Methods[i] = m
	}
	r.Server.RegisterService(&counted, impl)
}

// ended counts a call that has ended. One that panicked ends with an error, as
// net/http has it: a client's request must not take down what is no server at all.
func (s *Server) ended(method string, err error, panicked any) error {
	if panicked != nil {
		s.log.Error("a call panicked: this is a bug", "method", method, "panic", panicked, slog.String("stack", string(debug.Stack())))
		err = status.Error(codes.Internal, "the server met a bug; its log says more")
	}
	code := status.Code(err)
	if errors.Is(err, context.Canceled) {
		code = codes.Canceled
	}
	// Only registered methods come here, so the label has few values.
	s.metrics.requests.WithLabelValues(protocolGRPC, path.Base(method), code.String()).Inc()
	return err
}
