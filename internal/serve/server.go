package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	hybridplegv1 "github.com/hybrid-pleg/hybrid-pleg/api/hybridpleg/v1"
	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"
)

const (
	// helloTimeout is how long a new connection may take to say what it wants.
	helloTimeout = 5 * time.Second
	// drainTime is how long the end waits for watchers to get what is published, and
	// stopTime for what else is under way. Together they are less than the second in
	// which a daemon ends.
	drainTime = 300 * time.Millisecond
	stopTime  = 200 * time.Millisecond
	// healthEvery is how often health is looked at for gRPC's health service.
	healthEvery = time.Second
)

// Server serves a backend. Make it with [New]; it runs once.
type Server struct {
	backend Backend
	limits  Limits
	version string
	started time.Time
	state   func() StateDirectory
	log     *slog.Logger
	metrics *metrics
	unhook  func() // unregisters the metrics

	bucket *rate.Limiter
	// connections, requests (of HTTP) and watches count what is open.
	connections, requests, watches *gate
	cache                          cache

	grpc    *grpc.Server
	health  *health.Server
	handler http.Handler

	// ending ends once the watches had their time.
	ending context.Context
	end    context.CancelFunc

	// What tests set otherwise.
	helloTimeout, answerTimeout, bookmarkEvery, drainTime time.Duration
}

// New returns a server that serves nothing yet. The error is a [LimitError], or says
// that the metrics can't be registered.
func New(opts Options) (*Server, error) {
	limits, err := opts.Limits.Complete()
	if err != nil {
		return nil, err
	}
	s := &Server{
		backend: opts.Backend, limits: limits, version: opts.Version, state: opts.State,
		started: time.Now().UTC(), log: opts.Log, metrics: newMetrics(), unhook: func() {},
		bucket:       rate.NewLimiter(rate.Limit(limits.RequestsPerSecond), int(limits.RequestsPerSecond)),
		connections:  newGate(limits.Watchers + spareConnections),
		requests:     newGate(0),
		watches:      newGate(limits.Watchers),
		health:       health.NewServer(),
		helloTimeout: helloTimeout, answerTimeout: answerTimeout, bookmarkEvery: bookmarkEvery, drainTime: drainTime,
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if opts.Registerer != nil {
		if err := opts.Registerer.Register(s.metrics); err != nil {
			return nil, fmt.Errorf("register metrics: %w", err)
		}
		s.unhook = func() { opts.Registerer.Unregister(s.metrics) }
	}
	s.ending, s.end = context.WithCancel(context.Background())
	s.grpc = s.newGRPC()
	s.handler = s.pages()
	return s, nil
}

func (s *Server) newGRPC() *grpc.Server {
	const (
		headerBytes  = 64 << 10
		requestBytes = 1 << 20 // a filter at its bounds takes less
		bufferBytes  = 16 << 10
	)
	srv := grpc.NewServer(
		grpc.ForceServerCodecV2(newCodec()),
		grpc.ChainUnaryInterceptor(s.unaryCall),
		grpc.ChainStreamInterceptor(s.streamCall),
		grpc.MaxRecvMsgSize(min(requestBytes, s.limits.MessageSize)),
		grpc.MaxSendMsgSize(s.limits.MessageSize),
		// One connection may hold all watches, and be told that they are too many.
		grpc.MaxConcurrentStreams(uint32(s.limits.Watchers+spareConnections)),
		grpc.MaxHeaderListSize(headerBytes),
		grpc.ConnectionTimeout(s.helloTimeout),
		grpc.WriteBufferSize(bufferBytes),
		grpc.ReadBufferSize(bufferBytes/4),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			MaxConnectionIdle: 5 * time.Minute, // without a call; gRPC clients connect again by themselves
			Time:              time.Minute,     // of silence, then a ping
			Timeout:           20 * time.Second,
		}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{
			MinTime: 10 * time.Second, PermitWithoutStream: true,
		}),
		grpc.WaitForHandlers(true),
	)
	counted := registrar{srv, s}
	hybridplegv1.RegisterPodLifecycleServiceServer(counted, service{server: s})
	healthpb.RegisterHealthServer(counted, s.health)
	reflection.Register(srv)
	return srv
}

// Listeners are where to serve; those that are nil are left out.
type Listeners struct {
	// Local takes gRPC and HTTP; it is a unix socket.
	Local net.Listener
	// HTTP takes HTTP only.
	HTTP *HTTPListener
}

// Run serves until ctx ends, and returns nil then, with all connections closed.
// The listeners are closed in any case.
func (s *Server) Run(ctx context.Context, ls Listeners) error {
	defer s.unhook()
	defer s.end()
	group, ctx := errgroup.WithContext(ctx)
	var servers []*http.Server
	if ls.Local != nil {
		sn := newSniffer(s.bound(ls.Local), s.helloTimeout)
		srv := s.newHTTP(s.handler)
		servers = append(servers, srv)
		group.Go(func() error { return sn.run(ctx) })
		group.Go(func() error { return s.grpc.Serve(sn.grpc) })
		group.Go(func() error { return closedIsFine(srv.Serve(sn.http)) })
	}
	if ls.HTTP != nil {
		handler := s.handler
		if ls.HTTP.config == nil {
			handler = guard(handler)
		}
		srv := s.newHTTP(handler)
		servers = append(servers, srv)
		l := s.bound(ls.HTTP.Listener)
		group.Go(func() error {
			if ls.HTTP.config == nil {
				return closedIsFine(srv.Serve(l))
			}
			srv.TLSConfig = ls.HTTP.config
			return closedIsFine(srv.ServeTLS(l, "", ""))
		})
	}
	group.Go(func() error {
		s.followHealth(ctx) // until ctx ends
		s.stop(servers)
		return nil
	})
	return group.Wait()
}

func closedIsFine(err error) error {
	if errors.Is(err, http.ErrServerClosed) || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return fmt.Errorf("serve http: %w", err)
}

// newHTTP makes an HTTP server that cuts off who sends or reads too slowly.
func (s *Server) newHTTP(h http.Handler) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: s.helloTimeout,
		ReadTimeout:       2 * s.helloTimeout,
		WriteTimeout:      s.answerTimeout,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    64 << 10,
		// A stream that is to be reset for its deadline is not, as long as the
		// connection takes no bytes: then the connection must go.
		HTTP2:    &http.HTTP2Config{WriteByteTimeout: s.answerTimeout},
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
}

// followHealth keeps gRPC's health service up to date until ctx ends.
func (s *Server) followHealth(ctx context.Context) {
	tick := time.NewTicker(healthEvery)
	defer tick.Stop()
	for {
		st := healthpb.HealthCheckResponse_SERVING
		if s.backend.Healthy() != nil {
			st = healthpb.HealthCheckResponse_NOT_SERVING
		}
		s.health.SetServingStatus("", st)
		s.health.SetServingStatus(hybridplegv1.PodLifecycleService_ServiceDesc.ServiceName, st)
		select {
		case <-tick.C:
		case <-ctx.Done():
			s.health.Shutdown()
			return
		}
	}
}

// stop ends all that is open: first watches, which get what is published, then, as
// soon as they are done or their time is over, everything.
func (s *Server) stop(servers []*http.Server) {
	s.connections.close()
	watched := s.watches.close()
	wait(watched, s.drainTime)
	s.end()

	ctx, cancel := context.WithTimeout(context.Background(), stopTime)
	defer cancel()
	var group errgroup.Group
	group.Go(func() error {
		// Stop also ends a GracefulStop that waits.
		stop := context.AfterFunc(ctx, s.grpc.Stop)
		defer stop()
		s.grpc.GracefulStop()
		return nil
	})
	for _, srv := range servers {
		group.Go(func() error {
			if srv.Shutdown(ctx) != nil {
				return srv.Close()
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		s.log.Debug("a connection did not end cleanly", "err", err)
	}
	<-s.requests.close()
	<-watched
}

// wait waits for done, but no longer than some time.
func wait(done <-chan struct{}, most time.Duration) {
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}
