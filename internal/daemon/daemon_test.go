package daemon

import (
	"bufio"
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/internal/serve"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// defaults are options for a test on the embedded runtime.
func defaults(t *testing.T, dir string, stdout *os.File) Options {
	stderr, err := os.Create(filepath.Join(dir, "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stderr.Close() })
	limits, err := serve.Limits{}.Complete()
	if err != nil {
		t.Fatal(err)
	}
	return Options{
		RuntimeEndpoint: "embedded", Triggers: []string{"cgroup", "ebpf", "cri"},
		RelistPeriod: time.Second, RelistPeriodDegraded: time.Second,
		Output: "ndjson", HTTP: "127.0.0.1:0", LogLevel: "info",
		Agents:        Agents{Limits: limits},
		JournalEvents: 1024, JournalBytes: 1 << 20,
		Stdout: stdout, Stderr: stderr, Getenv: func(string) string { return "" },
	}
}

// TestRunLeavesNothing runs on the embedded runtime again and again: no descriptor,
// no file and (see TestMain) no goroutine is left.
func TestRunLeavesNothing(t *testing.T) {
	tmp, err := os.MkdirTemp("", "hp") // short, for a socket
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(tmp)
	dir := t.TempDir() // before it would be made in tmp
	t.Setenv("TMPDIR", tmp)
	descriptors := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			return 0 // not on this system
		}
		return len(entries)
	}
	before := 0
	for round := range 3 {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		opts := defaults(t, dir, w)
		go func() { ended <- Run(ctx, opts) }()
		lines := bufio.NewScanner(r)
		for range 5 {
			if !lines.Scan() {
				t.Fatal("the output ended")
			}
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		w.Close()
		for lines.Scan() {
			if line := lines.Text(); !strings.HasSuffix(line, "}") {
				t.Errorf("a line is cut off: %s", line)
			}
		}
		r.Close()
		opts.Stderr.Close()
		if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
			t.Errorf("left behind: %v, %v", left, err)
		}
		if round == 0 {
			before = descriptors() // the first time, some are opened for good
		} else if now := descriptors(); now > before {
			t.Errorf("%d descriptors are open, %d after the first run", now, before)
		}
	}
}

// TestRunFailsClean has errors after the embedded runtime was started.
func TestRunFailsClean(t *testing.T) {
	tmp, err := os.MkdirTemp("", "hp")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(tmp)
	dir := t.TempDir() // before it would be made in tmp
	t.Setenv("TMPDIR", tmp)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	opts := defaults(t, dir, os.Stdout)
	opts.HTTP, opts.Output = taken.Addr().String(), "none"
	err = Run(t.Context(), opts)
	if err == nil || errors.Is(err, ErrUsage) || !strings.Contains(err.Error(), "choose another address") {
		t.Errorf("with an address that is taken: %v", err)
	}
	if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestServerEnds has clients that hang when the server is to end, and one that
// hangs long before.
func TestServerEnds(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	entered := make(chan struct{})
	go func() {
		ended <- serveWeb(ctx, l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			close(entered)
			<-r.Context().Done()
		}))
	}()
	dial := func(text string) net.Conn {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		if _, err := c.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		return c
	}
	slow := dial("GET / HTTP/1.1\r\nHost: x\r\nX-Slow")
	if err := slow.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(slow).ReadString(0); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a client that does not finish its request is not cut off: %v", err)
	}

	dial("")
	dial("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	<-entered
	cancel()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Error("the server does not end")
	}
}
