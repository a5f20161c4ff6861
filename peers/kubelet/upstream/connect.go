package upstream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/trace/noop"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	internalapi "k8s.io/cri-api/pkg/apis"
	cri "k8s.io/cri-client/pkg"
	"k8s.io/kubernetes/pkg/features"
)

// requestTimeout is the kubelet's default runtimeRequestTimeout.
const requestTimeout = 2 * time.Minute

// Clients are the kubelet's connections to a CRI runtime.
type Clients struct {
	Runtime internalapi.RuntimeService
	Images  internalapi.ImageManagerService
}

// Connect connects to a CRI endpoint, such as unix:///run/containerd/containerd.sock,
// as the kubelet does (PreInitRuntimeService), which fails while the runtime is
// down. Close the clients after use.
func Connect(ctx context.Context, endpoint string) (*Clients, error) {
	streaming := utilfeature.DefaultFeatureGate.Enabled(features.CRIListStreaming)
	var (
		c   Clients
		err error
	)
	c.Runtime, err = cri.NewRemoteRuntimeServiceBuilder().
		WithEndpoint(endpoint).
		WithConnectionTimeout(requestTimeout).
		WithTracerProvider(noop.NewTracerProvider()).
		WithUseStreaming(streaming).
		Build(ctx)
	if err != nil {
		return nil, fmt.Errorf("connect to the runtime: %w", err)
	}
	c.Images, err = cri.NewRemoteImageServiceBuilder().
		WithEndpoint(endpoint).
		WithConnectionTimeout(requestTimeout).
		WithTracerProvider(noop.NewTracerProvider()).
		WithUseStreaming(streaming).
		Build(ctx)
	if err != nil {
		_ = c.Runtime.Close(ctx) // the first error is the one to tell
		return nil, fmt.Errorf("connect to the runtime's images: %w", err)
	}
	return &c, nil
}

// Close ends the connections.
func (c *Clients) Close(ctx context.Context) error {
	return errors.Join(c.Runtime.Close(ctx), c.Images.Close(ctx))
}
