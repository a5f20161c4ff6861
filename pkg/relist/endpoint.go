package relist

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
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

// socketPath returns the path of an endpoint's socket, which may not be there
// yet.
func socketPath(endpoint string) (string, error) {
	path, err := endpointPath(endpoint)
	if err != nil {
		return "", err
	}
	switch info, err := os.Stat(path); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return "", fmt.Errorf("runtime endpoint %s: %w", endpoint, err)
	case info.Mode().Type() != fs.ModeSocket:
		return "", fmt.Errorf("runtime endpoint %s: %w: it is a %s; give the runtime's socket, such as unix:///run/containerd/containerd.sock",
			endpoint, ErrNotSocket, kindOf(info))
	}
	return path, nil
}

// longestPath is what fits into a socket's address on Linux (unix(7)).
const longestPath = 107

// endpointPath takes the path as it is written: an endpoint is no URL in which
// anything would be escaped.
func endpointPath(endpoint string) (string, error) {
	path := strings.TrimPrefix(endpoint, "unix://")
	if !strings.HasPrefix(path, "/") {
		return "", fmt.Errorf("runtime endpoint %q: %w: write it as unix:///path/to/socket", endpoint, ErrNotSocket)
	}
	if len(path) > longestPath {
		return "", fmt.Errorf("runtime endpoint %q: %w: its path has %d bytes and may have %d", endpoint, ErrNotSocket, len(path), longestPath)
	}
	return path, nil
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
