package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"syscall"

	"github.com/hybrid-pleg/hybrid-pleg/internal/filter"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Errors that end a stream, and that calls return.
var (
	// ErrAddress: the address is not of the form unix:///path, or the path is
	// something other than a socket.
	ErrAddress = errors.New("bad address")
	// ErrFilter: the filter can't be one.
	ErrFilter = filter.ErrFilter
	// ErrPermission: the socket may not be opened by this user.
	ErrPermission = errors.New("permission denied")
	// ErrNotHybridPleg: something answers at the address, but not with this API.
	ErrNotHybridPleg = errors.New("it is not hybrid-pleg that answers")
	// ErrRefused: the daemon does not take the request as it is; a token that can't
	// be one is refused so.
	ErrRefused = errors.New("the daemon refuses the request")
	// ErrUnavailable: nobody answers, or not in time. It ends a stream only where
	// [WatchOptions].ConnectWithin says so.
	ErrUnavailable = errors.New("nobody answers")
	// ErrLimit: the daemon allows no more clients, requests a second or bytes a message.
	// It ends a stream only as ErrUnavailable does.
	ErrLimit = errors.New("a limit of the daemon is reached")
	// ErrNotFound: there is no such pod.
	ErrNotFound = errors.New("no such pod")
)

// lasting reports whether trying again is in vain.
func lasting(err error) bool { return errors.Is(err, ErrRefused) || misplaced(err) }

// misplaced reports whether it is the socket that is wrong, which it may be for a
// moment while a daemon is being restarted.
func misplaced(err error) bool {
	return errors.Is(err, ErrPermission) || errors.Is(err, ErrNotHybridPleg)
}

// explain gives an error of a call under ctx a text that says what to do about it.
// dialled is the last error that connecting ended with, nil if it did not fail.
func (c *Client) explain(ctx context.Context, err, dialled error) error {
	switch {
	case err == nil, errors.Is(err, errProtocol):
		return err
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	msg := status.Convert(err).Message()
	switch code := status.Code(err); {
	case errors.Is(dialled, fs.ErrPermission):
		return fmt.Errorf("%w at %s: run this as root, or as a member of the group that the socket belongs to (ls -l %s)", ErrPermission, c.address, c.path)
	case errors.Is(dialled, fs.ErrNotExist), errors.Is(dialled, syscall.ECONNREFUSED):
		return fmt.Errorf("%w at %s: is \"hybrid-pleg run --listen %s\" up? (%w)", ErrUnavailable, c.address, c.address, dialled)
	case code == codes.Unimplemented, strings.Contains(msg, "HTTP"):
		return fmt.Errorf("%w at %s: is it the socket that hybrid-pleg run --listen names? (%s)", ErrNotHybridPleg, c.address, msg)
	case errors.Is(err, io.EOF), code == codes.Unavailable, code == codes.Canceled, code == codes.Aborted:
		return fmt.Errorf("%w at %s: %s", ErrUnavailable, c.address, msg)
	case code == codes.DeadlineExceeded:
		return fmt.Errorf("%w at %s in time", ErrUnavailable, c.address)
	case code == codes.PermissionDenied, code == codes.Unauthenticated:
		return fmt.Errorf("%w at %s: %s", ErrPermission, c.address, msg)
	case code == codes.InvalidArgument, code == codes.OutOfRange, code == codes.FailedPrecondition:
		return fmt.Errorf("%w: %s", ErrRefused, msg)
	case code == codes.NotFound:
		return fmt.Errorf("%w: %s", ErrNotFound, msg)
	case code == codes.ResourceExhausted:
		return fmt.Errorf("%w: %s", ErrLimit, msg)
	default:
		return fmt.Errorf("%s: %w", c.address, err)
	}
}
