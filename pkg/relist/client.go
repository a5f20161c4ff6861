package relist

import (
	"context"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Client is a CRI client that connects when it is first used, and again after
// the runtime was away. It is safe for concurrent use. Close it after use.
type Client struct {
	endpoint string
	path     string

	ctx    context.Context // of the attempts to connect
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu     sync.Mutex
	closed bool
	link   link
	trying *attempt // nil while none is under way
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
	c := &Client{endpoint: endpoint, path: path}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c, nil
}

// Connect makes sure that there was a connection to something that speaks CRI.
// [ErrNotCRI] is for good; other errors may pass.
func (c *Client) Connect(ctx context.Context) error {
	_, _, err := c.connected(ctx)
	return err
}

// Version is what the runtime called itself when the client connected; nil
// before.
func (c *Client) Version() *runtimeapi.VersionResponse {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.link.version
}

// Close ends the connection. Calls under way fail, as do later ones.
func (c *Client) Close() error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.cancel()
	c.wg.Wait()

	c.mu.Lock()
	l := c.link
	c.link = link{}
	c.mu.Unlock()
	return l.close()
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

// ContainerStatus implements [Runtime]. It does not go through cri-client, which
// (as of 0.37) refuses a status that lacks an image or a name, and keeps an entry
// for ever for every container whose status it could not get, as is normal for
// one that has just been removed.
func (c *Client) ContainerStatus(ctx context.Context, id string, verbose bool) (*runtimeapi.ContainerStatusResponse, error) {
	calls, _, err := c.connected(ctx)
	if err != nil {
		return nil, err
	}
	return calls.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: id, Verbose: verbose})
}

// GetContainerEvents subscribes to the runtime's event stream and sends what
// comes to events until the stream ends; it does not watch ctx while sending, so
// events must be drained. established is called once the stream is open.
func (c *Client) GetContainerEvents(ctx context.Context, events chan *runtimeapi.ContainerEventResponse, established func(runtimeapi.RuntimeService_GetContainerEventsClient)) error {
	_, lists, err := c.connected(ctx)
	if err != nil {
		return err
	}
	return lists.GetContainerEvents(quiet(ctx), events, established)
}

// list calls a listing, and again as a stream when the answer is too large for
// one message. Streaming is not used before, since it takes the runtime and us
// about one message a container. A runtime without streaming lists answers as
// before.
func list[T any](ctx context.Context, c *Client, call func(context.Context, internalapi.RuntimeService) ([]T, error)) ([]T, error) {
	_, lists, err := c.connected(ctx)
	if err != nil {
		return nil, err
	}
	out, err := call(quiet(ctx), lists)
	if err == nil || status.Code(err) != codes.ResourceExhausted {
		return out, err
	}
	c.mu.Lock()
	c.large = true
	c.mu.Unlock()
	if _, streaming, serr := c.connected(ctx); serr == nil && streaming != lists {
		return call(quiet(ctx), streaming)
	}
	return nil, err
}
