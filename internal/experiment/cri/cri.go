// Package cri connects an experiment to a container runtime. Workload and observers
// use connections of their own, apart from any arm's.
package cri

import (
	"context"
	"fmt"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/internal/endpoint"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// maxMessage is the largest answer that is taken: a list of 10,000 containers has
// about 15 MB, where gRPC stops at 4.
const maxMessage = 256 << 20

// answerTime is how long a runtime may take to say that it is there.
const answerTime = 10 * time.Second

// Conn is a connection to a runtime. Close it when done.
type Conn struct {
	runtimeapi.RuntimeServiceClient
	Images runtimeapi.ImageServiceClient
	// Endpoint is as given, RuntimeName and RuntimeVersion are what the runtime says.
	Endpoint, RuntimeName, RuntimeVersion string

	conn *grpc.ClientConn
}

// Dial connects to unix:///path and asks who is there.
func Dial(ctx context.Context, at string) (*Conn, error) {
	choice, err := (endpoint.Resolver{}).Resolve(ctx, at)
	if err != nil {
		return nil, err
	}
	conn, err := grpc.NewClient(choice.Endpoint,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithAuthority("localhost"),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)))
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", at, err)
	}
	c := &Conn{
		RuntimeServiceClient: runtimeapi.NewRuntimeServiceClient(conn),
		Images:               runtimeapi.NewImageServiceClient(conn),
		Endpoint:             choice.Endpoint, conn: conn,
	}
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	v, err := c.Version(ctx, &runtimeapi.VersionRequest{})
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("no runtime answers at %s: %w", at, err)
	}
	c.RuntimeName, c.RuntimeVersion = v.GetRuntimeName(), v.GetRuntimeVersion()
	return c, nil
}

// Close ends the connection.
func (c *Conn) Close() { c.conn.Close() }
