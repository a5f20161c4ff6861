package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	hybridplegv1 "github.com/hybrid-pleg/hybrid-pleg/api/hybridpleg/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
)

// DefaultAddress is where hybrid-pleg run listens by default.
const DefaultAddress = "unix:///run/hybrid-pleg/hybrid-pleg.sock"

const (
	// connectTimeout bounds an attempt to connect.
	connectTimeout = 5 * time.Second
	// callTimeout bounds each call but a stream.
	callTimeout = 10 * time.Second
	// maxMessage is what one message may hold: as much as a daemon can be told to send.
	maxMessage = 256 << 20
)

// Options are the settings of a [Client]. The zero value works.
type Options struct {
	// Address is the daemon's socket: unix:///path, or an absolute path. Empty:
	// [DefaultAddress]. The socket need not be there yet.
	Address string
	// Log gets a line when a stream loses the daemon, one when it is back, and one when
	// what happened in between may be known only in part; nil discards them.
	Log *slog.Logger
}

// Client talks to a hybrid-pleg daemon. Its methods are safe for concurrent use.
type Client struct {
	address, path string
	log           *slog.Logger

	// line is for calls; each connection of a stream has its own.
	line *line
}

// New returns a client. It does not connect: what it opens later, Close closes. The
// error wraps [ErrAddress].
func New(o Options) (*Client, error) {
	if o.Address == "" {
		o.Address = DefaultAddress
	}
	path, err := socketPath(o.Address)
	if err != nil {
		return nil, err
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	c := &Client{address: "unix://" + path, path: path, log: o.Log}
	if c.line, err = c.open(false); err != nil {
		return nil, err
	}
	return c, nil
}

// Close ends the connection that List, Get and Info use. Streams end by their
// contexts.
func (c *Client) Close() { c.line.conn.Close() }

// longestPath is what fits into a socket's address on all systems.
const longestPath = 103

// socketPath returns the path of an address' socket, which may not be there yet.
func socketPath(address string) (string, error) {
	path := strings.TrimPrefix(address, "unix://")
	if !strings.HasPrefix(path, "/") {
		return "", fmt.Errorf("%w %q: write it as unix:///path/to/socket", ErrAddress, address)
	}
	if len(path) > longestPath {
		return "", fmt.Errorf("%w %q: its path has %d bytes and may have %d", ErrAddress, address, len(path), longestPath)
	}
	info, err := os.Stat(path)
	if err == nil && info.Mode().Type() != os.ModeSocket {
		return "", fmt.Errorf("%w %q: there is something that is no socket; give the one that hybrid-pleg run --listen names, such as %s", ErrAddress, address, DefaultAddress)
	}
	return path, nil // what else is wrong, connecting tells
}

// line is a connection to the daemon that remembers why connecting failed: gRPC
// itself hands on no more than a text.
type line struct {
	conn *grpc.ClientConn
	api  hybridplegv1.PodLifecycleServiceClient

	once    bool // never connects a second time
	mu      sync.Mutex
	made    bool  // connected once
	dialled error // what the last dial ended with
}

var errLineLost = errors.New("the connection was lost")

// open makes a line; one that is to last for one process of the daemon connects once.
func (c *Client) open(once bool) (*line, error) {
	l := &line{once: once}
	pace := backoff.DefaultConfig
	pace.BaseDelay, pace.MaxDelay = backoffLeast, backoffMost
	conn, err := grpc.NewClient("passthrough:///hybrid-pleg",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return l.dial(ctx, c.path)
		}),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithAuthority("localhost"),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: pace, MinConnectTimeout: connectTimeout}))
	if err != nil {
		return nil, fmt.Errorf("client of %s: %w", c.address, err)
	}
	l.conn, l.api = conn, hybridplegv1.NewPodLifecycleServiceClient(conn)
	return l, nil
}

func (l *line) dial(ctx context.Context, path string) (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.once && l.made {
		return nil, errLineLost
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
	l.made, l.dialled = err == nil, err
	return conn, err
}

func (l *line) lastDial() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dialled
}
