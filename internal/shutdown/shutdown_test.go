//go:build unix

package shutdown

import (
	"context"
	"errors"
	"os"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func send(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(os.Getpid(), s); err != nil {
		t.Fatal(err)
	}
}

func TestSignals(t *testing.T) {
	for _, test := range []struct {
		first, second syscall.Signal
		code          int
	}{
		{syscall.SIGTERM, syscall.SIGTERM, 143},
		{syscall.SIGINT, syscall.SIGTERM, 143},
		{syscall.SIGTERM, syscall.SIGINT, 130},
		{syscall.SIGHUP, syscall.SIGINT, 130},
	} {
		exits := make(chan int, 1)
		ctx, stop := Context(context.Background(), func(code int) { exits <- code })
		send(t, test.first)
		select {
		case <-ctx.Done():
		case <-time.After(time.Minute):
			t.Fatalf("%s did not end the context", test.first)
		}
		// Sent again and again: one that comes too soon counts as the first told twice.
		code := again(t, test.second, exits)
		if code != test.code {
			t.Errorf("%s, %s: exit %d, want %d", test.first, test.second, code, test.code)
		}
		stop()
	}
}

func again(t *testing.T, s syscall.Signal, exits <-chan int) int {
	t.Helper()
	tick := time.NewTicker(sameSignal / 4)
	defer tick.Stop()
	timeout := time.After(time.Minute)
	for {
		select {
		case <-tick.C:
			send(t, s)
		case code := <-exits:
			return code
		case <-timeout:
			t.Fatalf("%s did not end the program", s)
		}
	}
}

// TestToldTwice is what timeout(1) does: it signals its child and then its group.
func TestToldTwice(t *testing.T) {
	ctx, stop := Context(context.Background(), func(code int) { t.Errorf("exit %d", code) })
	send(t, syscall.SIGTERM)
	<-ctx.Done()
	send(t, syscall.SIGTERM)
	stop()
	stop() // as any cancel function may be
}

func TestNoSignal(t *testing.T) {
	parent, cancel := context.WithCancel(context.Background())
	ctx, stop := Context(parent, func(code int) { t.Errorf("exit %d", code) })
	cancel()
	<-ctx.Done()
	stop()

	ctx, stop = Context(context.Background(), func(code int) { t.Errorf("exit %d", code) })
	if ctx.Err() != nil {
		t.Error("it has ended by itself")
	}
	stop()
	if ctx.Err() == nil {
		t.Error("stop did not end it")
	}
}

func TestBrokenPipe(t *testing.T) {
	_, stop := Context(context.Background(), func(int) {})
	defer stop()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	r.Close()
	if _, err := w.Write([]byte("x")); !errors.Is(err, syscall.EPIPE) {
		t.Errorf("writing gave %v", err)
	}
}
