package relist

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"time"

	"github.com/go-logr/logr"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	cri "k8s.io/cri-client/pkg"
	"k8s.io/klog/v2"
)

const (
	// connectTimeout bounds an attempt to connect.
	connectTimeout = 5 * time.Second
	// callTimeout is cri-client's own bound on each call. Callers set shorter ones
	// by context; this one must only not be in the way of them.
	callTimeout = 5 * time.Minute
	// gRPC connects again by itself after the runtime was away, and waits no longer
	// than this between tries.
	reconnectMax = 3 * time.Second
)

// errClosed is what a closed client answers.
var errClosed = errors.New("the client is closed")

// link is the connection to a runtime. Once made it lasts until the client is
// closed, since gRPC itself connects again.
type link struct {
	conn    *grpc.ClientConn
	calls   runtimeapi.RuntimeServiceClient
	version *runtimeapi.VersionResponse
	// unary and stream list through cri-client, all in one message or in many.
	unary, stream internalapi.RuntimeService
}

// lists returns the service to list with; nil when it is still to be made.
func (l *link) lists(large bool) internalapi.RuntimeService {
	if large {
		return l.stream
	}
	return l.unary
}

func (l *link) close() error {
	var errs []error
	for _, s := range []internalapi.RuntimeService{l.unary, l.stream} {
		if s != nil {
			errs = append(errs, s.Close(quiet(context.Background())))
		}
	}
	if l.conn != nil {
		errs = append(errs, l.conn.Close())
	}
	return errors.Join(errs...)
}

// attempt is a try to connect, shared by all who wait for it.
type attempt struct {
	done chan struct{}
	err  error
}

// connected returns the connection and the service to list with. Callers who find
// none share one attempt to make it, and each waits no longer than its context
// allows.
func (c *Client) connected(ctx context.Context) (runtimeapi.RuntimeServiceClient, internalapi.RuntimeService, error) {
	for {
		c.mu.Lock()
		if c.closed {
			c.mu.Unlock()
			return nil, nil, fmt.Errorf("runtime endpoint %s: %w", c.endpoint, errClosed)
		}
		if lists := c.link.lists(c.large); lists != nil {
			calls := c.link.calls
			c.mu.Unlock()
			return calls, lists, nil
		}
		a := c.trying
		if a == nil {
			a = &attempt{done: make(chan struct{})}
			c.trying = a
			c.wg.Go(func() { c.try(a) })
		}
		c.mu.Unlock()

		select {
		case <-a.done:
		case <-ctx.Done():
			return nil, nil, fmt.Errorf("runtime endpoint %s: connect: %w", c.endpoint, ctx.Err())
		}
		if a.err != nil {
			return nil, nil, fmt.Errorf("runtime endpoint %s: %w", c.endpoint, a.err)
		}
	}
}

// try makes what is missing of the connection.
func (c *Client) try(a *attempt) {
	ctx, cancel := context.WithTimeout(c.ctx, connectTimeout)
	defer cancel()
	c.mu.Lock()
	l, large := c.link, c.large
	c.mu.Unlock()

	a.err = c.extend(ctx, &l, large)

	c.mu.Lock()
	c.link, c.trying = l, nil
	c.mu.Unlock()
	close(a.done)
}

// extend makes the connection if there is none, and the service to list with. On
// an error l is as it was.
func (c *Client) extend(ctx context.Context, l *link, large bool) error {
	conn, version := l.conn, l.version
	if conn == nil {
		var err error
		if conn, version, err = c.probe(ctx); err != nil {
			return err
		}
	}
	// Build (cri-client 0.37) asks for the version too and, when the answer is no,
	// leaves its connection behind with the goroutines that go on trying it. That
	// is why it is asked only now that the answer is known.
	lists, err := cri.NewRemoteRuntimeServiceBuilder().
		WithEndpoint((&url.URL{Scheme: "unix", Path: c.path}).String()).
		WithConnectionTimeout(callTimeout).
		WithTracerProvider(nil).
		WithUseStreaming(large).
		Build(quiet(ctx))
	if err != nil {
		if l.conn == nil {
			conn.Close()
		}
		return err
	}
	l.conn, l.version, l.calls = conn, version, runtimeapi.NewRuntimeServiceClient(conn)
	if large {
		l.stream = lists
	} else {
		l.unary = lists
	}
	return nil
}

// probe connects and asks for the version.
func (c *Client) probe(ctx context.Context) (*grpc.ClientConn, *runtimeapi.VersionResponse, error) {
	dial := func(ctx context.Context, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", c.path)
	}
	// A plain connection tells "nobody there" at once and in plain words.
	raw, err := dial(ctx, "")
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	raw.Close()

	pace := backoff.DefaultConfig
	pace.BaseDelay, pace.MaxDelay = 100*time.Millisecond, reconnectMax
	conn, err := grpc.NewClient("passthrough:///runtime",
		grpc.WithContextDialer(dial),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithAuthority("localhost"),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: pace, MinConnectTimeout: connectTimeout}))
	if err != nil {
		return nil, nil, err
	}
	version, err := runtimeapi.NewRuntimeServiceClient(conn).Version(ctx, &runtimeapi.VersionRequest{})
	if err == nil {
		return conn, version, nil
	}
	conn.Close()
	switch code := status.Code(err); {
	case code == codes.Unavailable && c.speaksHTTP1(ctx):
		err = fmt.Errorf("%w but HTTP/1; is it the runtime's CRI socket? %w", ErrNotCRI, err)
	case code == codes.Unimplemented:
		err = fmt.Errorf("%w; is it the runtime's CRI socket, and is its CRI plugin enabled? %w", ErrNotCRI, err)
	case code == codes.Unavailable, code == codes.DeadlineExceeded:
		// It took our connection a moment ago and yet there is no HTTP/2 to be had.
		err = fmt.Errorf("%w: it accepts connections but does not answer as a CRI runtime: %w", ErrUnavailable, err)
	}
	return nil, nil, err
}

// speaksHTTP1 reports whether an HTTP/1 server answers at the socket: dockerd at
// its own socket, where cri-dockerd's was meant, is the common mistake. gRPC's
// error tells only sometimes: it may stumble over the closed connection first.
func (c *Client) speaksHTTP1(ctx context.Context) bool {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", c.path)
	if err != nil {
		return false
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Second))
	const request, answer = "OPTIONS * HTTP/1.0\r\n\r\n", "HTTP/1."
	if _, err := conn.Write([]byte(request)); err != nil {
		return false
	}
	got := make([]byte, len(answer))
	_, err = io.ReadFull(conn, got)
	return err == nil && string(got) == answer
}

// quiet keeps cri-client from logging through klog what is returned to us as an
// error anyway.
func quiet(ctx context.Context) context.Context {
	return klog.NewContext(ctx, logr.Discard())
}
