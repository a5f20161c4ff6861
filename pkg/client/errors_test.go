package client

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestExplain(t *testing.T) {
	c := &Client{address: "unix:///x.sock", path: "/x.sock"}
	dial := func(err error) error {
		return &net.OpError{Op: "dial", Net: "unix", Err: os.NewSyscallError("connect", err)}
	}
	unavailable := status.Error(codes.Unavailable, "connection error")
	tests := []struct {
		err, dialled error
		want         error
		says         string
		lasts        bool
	}{
		{unavailable, dial(syscall.EACCES), ErrPermission, "group", true},
		{unavailable, dial(syscall.ENOENT), ErrUnavailable, "up?", false},
		{unavailable, dial(syscall.ECONNREFUSED), ErrUnavailable, "up?", false},
		{unavailable, nil, ErrUnavailable, "connection error", false},
		{io.EOF, nil, ErrUnavailable, "EOF", false},
		{status.Error(codes.DeadlineExceeded, ""), nil, ErrUnavailable, "in time", false},
		{status.Error(codes.ResourceExhausted, "too many"), nil, ErrLimit, "too many", false},
		{status.Error(codes.Unimplemented, "unknown service"), nil, ErrNotHybridPleg, "unknown service", true},
		{status.Error(codes.InvalidArgument, "since"), nil, ErrRefused, "since", true},
		{status.Error(codes.PermissionDenied, "who are you"), nil, ErrPermission, "who are you", true},
		{status.Error(codes.Internal, "oh"), nil, nil, "oh", false},
		{errProtocol, nil, errProtocol, "", false},
	}
	for _, tt := range tests {
		err := c.explain(t.Context(), tt.err, tt.dialled)
		if tt.want != nil && !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.says) || lasting(err) != tt.lasts {
			t.Errorf("%v after dialling %v: %v", tt.err, tt.dialled, err)
		}
	}
	if !errors.Is(dial(syscall.EACCES), fs.ErrPermission) {
		t.Error("the test's errors are not those of package net")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.explain(ctx, status.Error(codes.Canceled, ""), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("after the caller's end: %v", err)
	}
}

func TestPauses(t *testing.T) {
	var p pauses
	if d := p.next(); d != 0 {
		t.Errorf("the first pause is %s", d)
	}
	least := backoffLeast / 2
	for n := range 100 {
		d := p.next()
		if d < least || d > backoffMost {
			t.Fatalf("pause %d is %s, want %s to %s", n, d, least, backoffMost)
		}
		least = min(2*least, backoffMost/2)
	}
	p.worked()
	if d := p.next(); d != 0 {
		t.Errorf("the first pause after success is %s", d)
	}
}
