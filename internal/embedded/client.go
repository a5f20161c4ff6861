package embedded

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Client reaches a [Runtime] without a socket, with the signatures and the
// behaviour of k8s.io/cri-client's RuntimeService, faults included. It blocks on
// channels and timers only, so that it works in a testing/synctest bubble. What it
// returns is shared and must not be changed.
//
// It does not limit how long a call takes, nor check that an answer would have
// fitted into a message, unless [MangleOversize] is on.
type Client struct {
	r *Runtime
}

// Client gives access within the process. It needs no closing.
func (r *Runtime) Client() *Client { return &Client{r} }

// Version is the CRI's.
func (c *Client) Version(ctx context.Context, _ string) (*runtimeapi.VersionResponse, error) {
	return c.r.Version(ctx, &runtimeapi.VersionRequest{})
}

// ListPodSandbox lists pod sandboxes.
func (c *Client) ListPodSandbox(ctx context.Context, filter *runtimeapi.PodSandboxFilter) ([]*runtimeapi.PodSandbox, error) {
	resp, err := c.r.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{Filter: filter})
	if err != nil {
		return nil, err
	}
	return resp.Items, tooLarge(resp.Items)
}

// ListContainers lists containers.
func (c *Client) ListContainers(ctx context.Context, filter *runtimeapi.ContainerFilter) ([]*runtimeapi.Container, error) {
	resp, err := c.r.ListContainers(ctx, &runtimeapi.ListContainersRequest{Filter: filter})
	if err != nil {
		return nil, err
	}
	return resp.Containers, tooLarge(resp.Containers)
}

// ContainerStatus reads the status of one container. Like cri-client it refuses
// one without ID, metadata, creation time or image.
func (c *Client) ContainerStatus(ctx context.Context, id string, verbose bool) (*runtimeapi.ContainerStatusResponse, error) {
	resp, err := c.r.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: id, Verbose: verbose})
	if err != nil {
		return nil, err
	}
	if s := resp.Status; s != nil && (s.Id == "" || s.Metadata == nil || s.Metadata.Name == "" || s.CreatedAt == 0 || s.Image.GetImage() == "" || s.ImageRef == "") {
		return nil, errors.New("status of container " + id + " lacks what every status must have")
	}
	return resp, nil
}

// GetContainerEvents sends events to ch until ctx ends or the stream does, which
// is io.EOF. Like cri-client it does not watch ctx while ch is full: the channel
// must always be drained. established is called, if not nil, when the subscription
// stands.
func (c *Client) GetContainerEvents(ctx context.Context, ch chan *runtimeapi.ContainerEventResponse, established func(runtimeapi.RuntimeService_GetContainerEventsClient)) error {
	err := c.r.streamEvents(ctx, func() error {
		if established != nil {
			established(&eventStream{ctx: ctx})
		}
		return nil
	}, func(ev *runtimeapi.ContainerEventResponse) error {
		ch <- ev
		return nil
	})
	if err == nil {
		return io.EOF
	}
	return err
}

// eventStream stands for the stream in the callback. Its events go to the
// channel, as cri-client's do, so there is nothing to receive.
type eventStream struct {
	grpc.ClientStream
	ctx context.Context
}

func (s *eventStream) Context() context.Context     { return s.ctx }
func (s *eventStream) Header() (metadata.MD, error) { return nil, nil }
func (s *eventStream) Trailer() metadata.MD         { return nil }
func (s *eventStream) CloseSend() error             { return nil }

func (s *eventStream) Recv() (*runtimeapi.ContainerEventResponse, error) {
	return nil, status.Error(codes.FailedPrecondition, "the events go to the channel given to GetContainerEvents")
}

// tooLarge fails as gRPC does if the first item, the one that MangleOversize
// swells, is over the limit by itself.
func tooLarge[T interface {
	proto.Message
	comparable
	GetLabels() map[string]string
}](items []T) error {
	var null T
	if len(items) == 0 || items[0] == null || len(items[0].GetLabels()["ballast"]) <= maxMessage {
		return nil
	}
	return status.Errorf(codes.ResourceExhausted, "grpc: received message larger than max (%d vs. %d)", proto.Size(items[0]), maxMessage)
}
