// Package endpoint finds the container runtime to use.
package endpoint

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"
)

// The words that stand for an endpoint.
const (
	// Auto: the environment's, else the first well-known socket that somebody
	// listens on, else the embedded runtime.
	Auto = "auto"
	// Embedded: the runtime inside the program, which holds its pods in memory.
	Embedded = "embedded"
)

// EnvVar is the variable that crictl reads as well.
const EnvVar = "CONTAINER_RUNTIME_ENDPOINT"

// WellKnown are the sockets at which runtimes listen by default, in the order in
// which they are tried: containerd (also as k3s and microk8s place it), CRI-O,
// cri-dockerd.
func WellKnown() []string {
	return []string{
		"/run/containerd/containerd.sock",
		"/run/k3s/containerd/containerd.sock",
		"/var/snap/microk8s/common/run/containerd.sock",
		"/run/crio/crio.sock",
		"/run/cri-dockerd.sock",
	}
}

// Choice is the endpoint to use and, for people, how it was come by.
type Choice struct {
	// Endpoint is unix:///path, or empty for the embedded runtime.
	Endpoint string
	Why      string
}

// Resolver resolves endpoints. The zero value asks this process' environment and
// this host's sockets.
type Resolver struct {
	Getenv  func(string) string
	Sockets []string
}

// Resolve finds out what an endpoint given by a user stands for: auto, embedded,
// unix:///path or an absolute path.
func (r Resolver) Resolve(ctx context.Context, given string) (Choice, error) {
	switch given {
	case Embedded:
		return Choice{Why: "asked for"}, nil
	case Auto, "":
		return r.auto(ctx)
	default:
		c, err := asURL(given)
		c.Why = "asked for"
		return c, err
	}
}

func (r Resolver) auto(ctx context.Context) (Choice, error) {
	getenv, sockets := r.Getenv, r.Sockets
	if getenv == nil {
		getenv = os.Getenv
	}
	if sockets == nil {
		sockets = WellKnown()
	}
	if given := getenv(EnvVar); given != "" {
		c, err := asURL(given)
		if err != nil {
			return c, fmt.Errorf("%s: %w", EnvVar, err)
		}
		c.Why = "set by " + EnvVar
		return c, nil
	}
	var closed []string
	for _, path := range sockets {
		switch err := answers(ctx, path); {
		case err == nil:
			return Choice{Endpoint: "unix://" + path, Why: "the first well-known socket that answers"}, nil
		case errors.Is(err, os.ErrPermission):
			closed = append(closed, path)
		}
	}
	if len(closed) > 0 {
		return Choice{Why: "no well-known socket answers; " + strings.Join(closed, ", ") + " may be used only by others: try as root"}, nil
	}
	return Choice{Why: "no well-known runtime socket answers"}, nil
}

func asURL(given string) (Choice, error) {
	switch {
	case strings.HasPrefix(given, "unix:///"):
		return Choice{Endpoint: given}, nil
	case strings.HasPrefix(given, "/"):
		return Choice{Endpoint: "unix://" + given}, nil
	default:
		return Choice{}, fmt.Errorf("unusable runtime endpoint %q: give auto, embedded, or the runtime's socket as unix:///path", given)
	}
}

// answers reports whether somebody listens on a socket.
func answers(ctx context.Context, path string) error {
	conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "unix", path)
	if err != nil {
		return err
	}
	return conn.Close()
}
