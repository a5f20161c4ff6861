package relist

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Errors that a relist can fail with, beside the runtime's own.
var (
	// ErrListTooLarge: the runtime's answer exceeds what one gRPC message may hold
	// (16 MiB, about 11,000 containers) and the runtime has no streaming lists.
	ErrListTooLarge = errors.New("the list is larger than a gRPC message may be; remove exited containers, or use a runtime with streaming lists")
	// ErrInvalidUTF8: a name, label or annotation in the answer is no valid UTF-8,
	// so that gRPC rejects the whole answer.
	ErrInvalidUTF8 = errors.New("the list holds text that is not valid UTF-8; find and remove the container or pod that carries it")
	// ErrUnavailable: nobody answers at the runtime's endpoint.
	ErrUnavailable = errors.New("the runtime does not answer")
)

// describe gives the errors that a user can do something about a text that says
// what.
func describe(err error) error {
	msg := status.Convert(err).Message()
	switch code := status.Code(err); {
	case code == codes.ResourceExhausted && strings.Contains(msg, "larger than max"):
		return fmt.Errorf("%w: %w", ErrListTooLarge, err)
	case code == codes.Internal && strings.Contains(strings.ToLower(msg), "utf-8"):
		return fmt.Errorf("%w: %w", ErrInvalidUTF8, err)
	case code == codes.Unavailable && !errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrNotCRI):
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return err
}

// Outcome is a word for how a relist ended, fit for a metric's label: ok,
// timeout, too_large, invalid_utf8, unavailable, canceled or error.
func (r Result) Outcome() string {
	switch {
	case r.Err == nil:
		return "ok"
	case errors.Is(r.Err, ErrListTooLarge):
		return "too_large"
	case errors.Is(r.Err, ErrInvalidUTF8):
		return "invalid_utf8"
	case errors.Is(r.Err, ErrUnavailable):
		return "unavailable"
	case errors.Is(r.Err, context.DeadlineExceeded), status.Code(r.Err) == codes.DeadlineExceeded:
		return "timeout"
	case errors.Is(r.Err, context.Canceled), status.Code(r.Err) == codes.Canceled:
		return "canceled"
	default:
		return "error"
	}
}
