package relist

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	cri "k8s.io/cri-client/pkg"
	"k8s.io/klog/v2"
)

// Errors that say that an endpoint will not do, as against a runtime that is down
// at the moment.
var (
	// ErrNotSocket: the endpoint is not of the form unix:///path, or the path is
	// something other than a socket.
	ErrNotSocket = errors.New("not a unix socket")
	// ErrNotCRI: something answers at the socket, but not to CRI v1.
	ErrNotCRI = errors.New("it does not speak CRI v1")
)

// callTimeout is the client's own bound on each call. Callers set shorter ones by
// context; this one must only not be in the way of them.
const callTimeout = 5 * time.Minute

// Client is a CRI client that connects when it is first used, and again after
// the runtime was away. It is safe for concurrent use. Close it after use.
type Client struct {
	endpoint string
	path     string

	mu      sync.Mutex
	unary   internalapi.RuntimeService
	stream  internalapi.RuntimeService
	version *runtimeapi.VersionResponse
	// large: an answer was too large for one message, so lists are streamed.
	large bool
}

// NewClient returns a client for an endpoint such as
// unix:///run/containerd/containerd.sock. It does not connect, and so succeeds
// while the runtime is down, but an endpoint that can't be one is refused with
// [ErrNotSocket].
func NewClient(endpoint string) (*Client, error) {
	path, err := socketPath(endpoint)
	if err != nil {
		return nil, err
	}
	switch info, err := os.Stat(path); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, fmt.Errorf("runtime endpoint %s: %w", endpoint, err)
	case info.Mode().Type() != fs.ModeSocket:
		return nil, fmt.Errorf("runtime endpoint %s: %w: it is a %s; give the runtime's socket, such as unix:///run/containerd/containerd.sock",
			endpoint, ErrNotSocket, kindOf(info))
	}
	return &Client{endpoint: endpoint, path: path}, nil
}

func socketPath(endpoint string) (string, error) {
	u, err := url.Parse(endpoint)
	if err == nil && u.Scheme == "" && len(endpoint) > 0 && endpoint[0] == '/' {
		return endpoint, nil
	}
	if err != nil || u.Scheme != "unix" || u.Path == "" || u.Host != "" {
		return "", fmt.Errorf("runtime endpoint %q: %w: write it as unix:///path/to/socket", endpoint, ErrNotSocket)
	}
	return u.Path, nil
}

func kindOf(info fs.FileInfo) string {
	switch {
	case info.IsDir():
		return "directory"
	case info.Mode().IsRegular():
		return "regular file"
	default:
		return "special file"
	}
}

// Connect makes sure that there is a connection to something that speaks CRI.
// [ErrNotCRI] is for good; other errors may pass.
func (c *Client) Connect(ctx context.Context) error {
	_, err := c.service(ctx)
	return err
}

// Version is what the runtime called itself when the client connected; nil
// before.
func (c *Client) Version() *runtimeapi.VersionResponse {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.version
}

// Close ends the connection.
func (c *Client) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var errs []error
	for _, s := range []internalapi.RuntimeService{c.unary, c.stream} {
		if s != nil {
			errs = append(errs, s.Close(quiet(context.Background())))
		}
	}
	c.unary, c.stream = nil, nil
	return errors.Join(errs...)
}

// ListPodSandbox implements [Runtime].
func (c *Client) ListPodSandbox(ctx context.Context, filter *runtimeapi.PodSandboxFilter) ([]*runtimeapi.PodSandbox, error) {
	return list(ctx, c, func(ctx context.Context, s internalapi.RuntimeService) ([]*runtimeapi.PodSandbox, error) {
		return s.ListPodSandbox(ctx, filter)
	})
}

// ListContainers implements [Runtime].
func (c *Client) ListContainers(ctx context.Context, filter *runtimeapi.ContainerFilter) ([]*runtimeapi.Container, error) {
	return list(ctx, c, func(ctx context.Context, s internalapi.RuntimeService) ([]*runtimeapi.Container, error) {
		return s.ListContainers(ctx, filter)
	})
}

// ContainerStatus implements [Runtime].
func (c *Client) ContainerStatus(ctx context.Context, id string, verbose bool) (*runtimeapi.ContainerStatusResponse, error) {
	s, err := c.service(ctx)
	if err != nil {
		return nil, err
	}
	return s.ContainerStatus(quiet(ctx), id, verbose)
}

// GetContainerEvents subscribes to the runtime's event stream and sends what
// comes to events until the stream ends; it does not watch ctx while sending, so
// events must be drained. established is called once the stream is open.
func (c *Client) GetContainerEvents(ctx context.Context, events chan *runtimeapi.ContainerEventResponse, established func(runtimeapi.RuntimeService_GetContainerEventsClient)) error {
	s, err := c.service(ctx)
	if err != nil {
		return err
	}
	return s.GetContainerEvents(quiet(ctx), events, established)
}

// list calls a listing, and again as a stream when the answer is too large for
// one message. Streaming is not used before, since it takes the runtime and us
// about one message a container.
func list[T any](ctx context.Context, c *Client, call func(context.Context, internalapi.RuntimeService) ([]T, error)) ([]T, error) {
	s, err := c.service(ctx)
	if err != nil {
		return nil, err
	}
	out, err := call(quiet(ctx), s)
	if err == nil || status.Code(err) != codes.ResourceExhausted {
		return out, err
	}
	c.mu.Lock()
	c.large = true
	c.mu.Unlock()
	if streaming, serr := c.service(ctx); serr == nil && streaming != s {
		return call(quiet(ctx), streaming)
	}
	return nil, err
}

// service returns the connection to use, made now if there is none.
func (c *Client) service(ctx context.Context) (internalapi.RuntimeService, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	want := &c.unary
	if c.large {
		want = &c.stream
	}
	if *want != nil {
		return *want, nil
	}
	version, err := c.probe(ctx)
	if err != nil {
		return nil, fmt.Errorf("runtime endpoint %s: %w", c.endpoint, err)
	}
	s, err := cri.NewRemoteRuntimeServiceBuilder().
		WithEndpoint("unix://" + c.path).
		WithConnectionTimeout(callTimeout).
		WithTracerProvider(nil).
		WithUseStreaming(c.large).
		Build(quiet(ctx))
	if err != nil {
		return nil, fmt.Errorf("runtime endpoint %s: %w", c.endpoint, err)
	}
	*want, c.version = s, version
	return s, nil
}

// probe asks for the version over a connection of its own. cri-client's Build
// (v0.37) does the same, but keeps its connection, and the goroutines that go on
// trying it, when the answer is no.
func (c *Client) probe(ctx context.Context) (*runtimeapi.VersionResponse, error) {
	// A plain connection tells apart "nobody there" at once and in plain words.
	raw, err := (&net.Dialer{}).DialContext(ctx, "unix", c.path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	raw.Close()

	conn, err := grpc.NewClient("unix://"+c.path,
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithAuthority("localhost"))
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	version, err := runtimeapi.NewRuntimeServiceClient(conn).Version(ctx, &runtimeapi.VersionRequest{})
	switch status.Code(err) {
	case codes.OK:
		return version, nil
	case codes.Unimplemented:
		return nil, fmt.Errorf("%w; is it the runtime's CRI socket, and is its CRI plugin enabled? %w", ErrNotCRI, err)
	case codes.Unavailable, codes.DeadlineExceeded:
		// It took our connection a moment ago and yet there is no HTTP/2 to be had.
		return nil, fmt.Errorf("%w: it accepts connections but does not answer as a CRI runtime: %w", ErrUnavailable, err)
	default:
		return nil, err
	}
}

// quiet keeps cri-client from logging through klog what is returned to us as an
// error anyway.
func quiet(ctx context.Context) context.Context {
	return klog.NewContext(ctx, logr.Discard())
}
