package relist

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// criServer is a runtime behind a socket.
type criServer struct {
	runtimeapi.UnimplementedRuntimeServiceServer
	containers []*runtimeapi.Container
	streams    atomic.Int32
	unary      atomic.Int32
	noStreams  bool
}

func (s *criServer) Version(context.Context, *runtimeapi.VersionRequest) (*runtimeapi.VersionResponse, error) {
	return &runtimeapi.VersionResponse{Version: "0.1.0", RuntimeName: "fake", RuntimeVersion: "1", RuntimeApiVersion: "v1"}, nil
}

func (s *criServer) ListPodSandbox(context.Context, *runtimeapi.ListPodSandboxRequest) (*runtimeapi.ListPodSandboxResponse, error) {
	return &runtimeapi.ListPodSandboxResponse{Items: []*runtimeapi.PodSandbox{{Id: "s"}}}, nil
}

func (s *criServer) ListContainers(context.Context, *runtimeapi.ListContainersRequest) (*runtimeapi.ListContainersResponse, error) {
	s.unary.Add(1)
	return &runtimeapi.ListContainersResponse{Containers: s.containers}, nil
}

func (s *criServer) StreamContainers(req *runtimeapi.StreamContainersRequest, stream runtimeapi.RuntimeService_StreamContainersServer) error {
	if s.noStreams {
		return s.UnimplementedRuntimeServiceServer.StreamContainers(req, stream)
	}
	s.streams.Add(1)
	for _, c := range s.containers {
		if err := stream.Send(&runtimeapi.StreamContainersResponse{Containers: []*runtimeapi.Container{c}}); err != nil {
			return err
		}
	}
	return nil
}

func (s *criServer) ContainerStatus(_ context.Context, req *runtimeapi.ContainerStatusRequest) (*runtimeapi.ContainerStatusResponse, error) {
	if req.ContainerId == "gone" {
		return nil, status.Error(codes.NotFound, "no such container")
	}
	// Without image, name and creation time, which cri-client would refuse.
	return &runtimeapi.ContainerStatusResponse{Status: &runtimeapi.ContainerStatus{Id: req.ContainerId}}, nil
}

// serve serves CRI, or with a nil server gRPC without it, on path until stop is
// called.
func serve(t *testing.T, path string, s runtimeapi.RuntimeServiceServer) (stop func()) {
	t.Helper()
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer()
	if s != nil {
		runtimeapi.RegisterRuntimeServiceServer(g, s)
	}
	done := make(chan struct{})
	go func() { defer close(done); g.Serve(l) }()
	stop = sync.OnceFunc(func() { g.Stop(); <-done })
	t.Cleanup(stop)
	return stop
}

func newClient(t *testing.T, path string) *Client {
	t.Helper()
	c, err := NewClient("unix://" + path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func socket(t *testing.T) string {
	t.Helper()
	// t.TempDir holds the test's name and may be too long for a socket.
	dir, err := os.MkdirTemp("", "cri")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return filepath.Join(dir, "s.sock")
}

// eventually waits until ok says so.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.NewTimer(30 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("%s: not within 30 seconds", what)
		}
	}
}

func TestClientEndpoints(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for endpoint, want := range map[string]string{
		"":                             "write it as unix:///path/to/socket",
		"tcp://127.0.0.1:1":            "write it as unix:///path/to/socket",
		"unix://":                      "write it as unix:///path/to/socket",
		"unix://relative":              "write it as unix:///path/to/socket",
		"run/x.sock":                   "write it as unix:///path/to/socket",
		"unix:///%zz":                  "",
		"unix:///what?#now":            "",
		"/" + strings.Repeat("x", 107): "its path has 108 bytes and may have 107",
		"\x00":                         "write it as unix:///path/to/socket",
		"unix://" + dir:                "it is a directory",
		dir:                            "it is a directory",
		"unix://" + file:               "it is a regular file",
		"unix:///dev/null":             "it is a special file",
		"unix://" + dir + "/not-there": "",
		dir + "/not-there":             "",
	} {
		c, err := NewClient(endpoint)
		switch {
		case err == nil:
			c.Close()
			if want != "" {
				t.Errorf("%q: no error", endpoint)
			}
		case want == "" || !errors.Is(err, ErrNotSocket) || !strings.Contains(err.Error(), want):
			t.Errorf("%q: %v", endpoint, err)
		}
	}
}

func TestClientConnectsLater(t *testing.T) {
	path := socket(t)
	c := newClient(t, path)
	ctx := t.Context()
	if _, err := c.ListPodSandbox(ctx, nil); !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), path) {
		t.Errorf("while the runtime is down: %v", err)
	}
	if c.Version() != nil {
		t.Error("a version without a runtime")
	}
	stop := serve(t, path, &criServer{})
	if err := c.Connect(ctx); err != nil {
		t.Fatal(err)
	}
	if got := c.Version().GetRuntimeName(); got != "fake" {
		t.Errorf("runtime name %q", got)
	}
	if got, err := c.ListPodSandbox(ctx, nil); err != nil || len(got) != 1 {
		t.Errorf("%v, %v", got, err)
	}

	// The runtime is restarted.
	stop()
	_, err := c.ListContainers(ctx, nil)
	if err = describe(err); !errors.Is(err, ErrUnavailable) {
		t.Errorf("while it is away: %v", err)
	}
	serve(t, path, &criServer{})
	eventually(t, "listing after a restart", func() bool {
		_, err := c.ListContainers(ctx, nil)
		return err == nil
	})
	eventually(t, "status after a restart", func() bool {
		_, err := c.ContainerStatus(ctx, "c", false)
		return err == nil
	})
	if _, err := c.ContainerStatus(ctx, "gone", false); status.Code(err) != codes.NotFound {
		t.Errorf("status of one that is gone: %v", err)
	}
}

func TestClientNotCRI(t *testing.T) {
	path := socket(t)
	serve(t, path, nil)
	if err := newClient(t, path).Connect(t.Context()); !errors.Is(err, ErrNotCRI) {
		t.Errorf("gRPC without CRI: %v", err)
	}

	path = socket(t)
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	web := &http.Server{Handler: http.NotFoundHandler()}
	done := make(chan struct{})
	go func() { defer close(done); web.Serve(l) }()
	defer func() { web.Close(); <-done }()
	err = newClient(t, path).Connect(t.Context())
	if !errors.Is(err, ErrNotCRI) || !strings.Contains(err.Error(), "but HTTP/1; is it the runtime's CRI socket?") {
		t.Errorf("a web server: %v", err)
	}
}

// A socket that takes connections and never answers: each caller waits as long as
// its context allows, not as long as the others do.
func TestClientSilentSocket(t *testing.T) {
	path := socket(t)
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c := newClient(t, path)

	patient := make(chan error, 1)
	go func() { patient <- c.Connect(context.Background()) }()
	eventually(t, "an attempt", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.trying != nil
	})
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
			defer cancel()
			if _, err := c.ContainerStatus(ctx, "c", false); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%v", err)
			}
		})
	}
	wg.Wait()
	select {
	case err := <-patient:
		t.Errorf("the patient caller gave up first: %v", err)
	default:
	}
	// Close ends the attempt.
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if err := <-patient; err == nil {
		t.Error("no error after Close")
	}
	if err := c.Connect(context.Background()); !errors.Is(err, errClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// large are more containers than one message may hold.
func large() []*runtimeapi.Container {
	var out []*runtimeapi.Container
	for i := range 17 {
		out = append(out, &runtimeapi.Container{
			Id: fmt.Sprint(i), Annotations: map[string]string{"large": strings.Repeat("x", 1<<20)},
		})
	}
	return out
}

func TestClientLargeList(t *testing.T) {
	path := socket(t)
	server := &criServer{containers: large()}
	serve(t, path, server)
	c := newClient(t, path)
	for i := range 3 {
		got, err := c.ListContainers(t.Context(), nil)
		if err != nil || len(got) != 17 {
			t.Fatalf("%d containers, %v", len(got), err)
		}
		if n := int(server.streams.Load()); n != i+1 {
			t.Errorf("%d streams after %d lists", n, i+1)
		}
	}
	if n := server.unary.Load(); n != 1 {
		t.Errorf("%d lists in one message, want 1", n)
	}

	path = socket(t)
	server = &criServer{containers: large(), noStreams: true}
	serve(t, path, server)
	c = newClient(t, path)
	for range 2 {
		_, err := c.ListContainers(t.Context(), nil)
		if err = describe(err); !errors.Is(err, ErrListTooLarge) {
			t.Errorf("without streaming lists: %v", err)
		}
		if got := (Result{Err: err}).Outcome(); got != "too_large" {
			t.Errorf("outcome %s", got)
		}
	}
}

func TestClientInvalidUTF8(t *testing.T) {
	path := socket(t)
	serve(t, path, &criServer{containers: []*runtimeapi.Container{{Id: "c", Image: &runtimeapi.ImageSpec{Image: "\xff"}}}})
	_, err := newClient(t, path).ListContainers(t.Context(), nil)
	if err = describe(err); !errors.Is(err, ErrInvalidUTF8) {
		t.Errorf("%v", err)
	}
}

// Attempts that fail leave neither goroutines nor descriptors behind.
func TestClientLeaksNothing(t *testing.T) {
	down := socket(t)
	notCRI := socket(t)
	serve(t, notCRI, nil)
	clients := []*Client{newClient(t, down), newClient(t, notCRI)}
	fail := func(n int) {
		for range n {
			for _, c := range clients {
				if err := c.Connect(t.Context()); err == nil {
					t.Fatal("connected")
				}
			}
		}
	}
	fail(3)
	goroutines, fds := runtime.NumGoroutine(), openFiles(t)
	fail(100)
	eventually(t, "goroutines and descriptors as before", func() bool {
		return runtime.NumGoroutine() <= goroutines && openFiles(t) <= fds
	})
}

func openFiles(t *testing.T) int {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0 // not Linux
	}
	return len(entries)
}

// The engine comes to itself when the runtime does.
func TestEngineOnClient(t *testing.T) {
	path := socket(t)
	c := newClient(t, path)
	e, err := New(Options{Runtime: c, Sink: func([]Change) {}})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if res := e.Relist(t.Context(), Request{}); res.Outcome() != "unavailable" {
		t.Errorf("outcome %s: %v", res.Outcome(), res.Err)
	}
	if err := e.Healthy(); !errors.Is(err, ErrNotListed) || !errors.Is(err, ErrUnavailable) {
		t.Errorf("healthy: %v", err)
	}
	serve(t, path, &criServer{})
	if res := e.Relist(t.Context(), Request{}); res.Err != nil || len(res.Changes) != 1 {
		t.Errorf("%+v", res)
	}
	eventually(t, "healthy", func() bool { return e.Healthy() == nil })
}
