package embedded

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// maxSocketPath is what fits into an address of macOS and the BSDs; Linux takes
// four bytes more.
const maxSocketPath = 103

// Server offers a [Runtime] on a unix socket.
type Server struct {
	r      *Runtime
	path   string
	dir    string // made for the socket; "" if the caller gave a path
	cancel func() bool

	mu     sync.Mutex
	grpc   *grpc.Server
	served chan struct{}
	closed bool
}

// Serve offers r on the unix socket at path until ctx ends or the server is
// closed. With an empty path the socket lies in a new directory that only this
// user can enter. The socket has mode 0600; a given path should lie in a private
// directory as well, since the mode is set after the socket was made. A
// socket that a dead process left there is replaced, a live one is an error.
func Serve(ctx context.Context, r *Runtime, path string) (*Server, error) {
	s := &Server{r: r, path: path}
	if path == "" {
		dir, err := os.MkdirTemp("", "hybrid-pleg-")
		if err != nil {
			return nil, fmt.Errorf("a directory for the embedded runtime's socket: %w", err)
		}
		s.dir, s.path = dir, filepath.Join(dir, "cri.sock")
	}
	abs, err := filepath.Abs(s.path)
	if err == nil {
		s.path = abs
		err = s.start(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, s.removeDir())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cancel = context.AfterFunc(ctx, func() {
		if err := s.Close(); err != nil {
			r.log.Warn("the embedded runtime left something behind", "err", err)
		}
	})
	return s, nil
}

// Endpoint is what a CRI client wants: unix:// and the path of the socket.
func (s *Server) Endpoint() string { return "unix://" + s.path }

// Start opens the socket again after [Server.Stop]. Starting a server that runs
// does nothing.
func (s *Server) Start() error { return s.start(context.Background()) }

func (s *Server) start(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errors.New("the embedded runtime's server was closed")
	}
	if s.grpc != nil {
		return nil
	}
	listener, err := listen(ctx, s.path)
	if err != nil {
		return err
	}
	server := grpc.NewServer(
		// Stop returns when no handler runs any more, which is soon: they all heed
		// their context.
		grpc.WaitForHandlers(true),
		grpc.UnaryInterceptor(explainUnary),
		grpc.StreamInterceptor(explainStream),
	)
	runtimeapi.RegisterRuntimeServiceServer(server, s.r)
	runtimeapi.RegisterImageServiceServer(server, s.r)
	served := make(chan struct{})
	go func() {
		defer close(served)
		if err := server.Serve(listener); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			s.r.log.Error("the embedded runtime's socket failed", "path", s.path, "err", err)
		}
	}()
	s.grpc, s.served = server, served
	return nil
}

// Stop closes the socket and breaks all connections, as a runtime does that is
// stopped. Pods and containers live on, as they do then. Calls and streams under
// way end with an error on the client's side.
func (s *Server) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stop()
}

func (s *Server) stop() {
	if s.grpc == nil {
		return
	}
	s.grpc.Stop()
	<-s.served
	s.grpc, s.served = nil, nil
}

// Close stops the server for good and removes the socket and the directory that
// was made for it. The Runtime stays open. It is safe to call it again.
func (s *Server) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cancel != nil {
		s.cancel()
	}
	s.closed = true
	s.stop()
	return s.removeDir()
}

func (s *Server) removeDir() error {
	if s.dir == "" {
		return nil
	}
	return os.RemoveAll(s.dir)
}

func listen(ctx context.Context, path string) (net.Listener, error) {
	if len(path) > maxSocketPath {
		return nil, fmt.Errorf("socket path %q is %d bytes long, and %d is the most that fits: choose a shorter one",
			path, len(path), maxSocketPath)
	}
	var config net.ListenConfig
	l, err := config.Listen(ctx, "unix", path)
	if err != nil && isDeadSocket(ctx, path) {
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("remove the socket that another process left: %w", err)
		}
		l, err = config.Listen(ctx, "unix", path)
	}
	if err != nil {
		return nil, fmt.Errorf("open the embedded runtime's socket: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("make the embedded runtime's socket private: %w", err), l.Close())
	}
	return l, nil
}

// isDeadSocket says whether path is a socket on which nobody listens.
func isDeadSocket(ctx context.Context, path string) bool {
	if info, err := os.Lstat(path); err != nil || info.Mode()&os.ModeSocket == 0 {
		return false
	}
	c, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "unix", path)
	if err == nil {
		_ = c.Close() // somebody answered, which is all we wanted to know
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}

// explainUnary and explainStream tell a person with crictl why something is
// missing.
func explainUnary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	resp, err := handler(ctx, req)
	return resp, explain(info.FullMethod, err)
}

func explainStream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	return explain(info.FullMethod, handler(srv, stream))
}

func explain(method string, err error) error {
	if status.Code(err) != codes.Unimplemented {
		return err
	}
	return status.Errorf(codes.Unimplemented, "the embedded runtime has no %s: it plays containers in memory and runs no process (%s)",
		method[strings.LastIndexByte(method, '/')+1:], status.Convert(err).Message())
}
