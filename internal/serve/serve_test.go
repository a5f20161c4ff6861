package serve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	hybridplegv1 "github.com/hybrid-pleg/hybrid-pleg/api/hybridpleg/v1"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/merge"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/relist"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/trigger"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// dialEnv has the test's binary do no more than connect to that socket: see
// TestOnlyTheGroupConnects.
const dialEnv = "HYBRID_PLEG_TEST_DIAL"

func TestMain(m *testing.M) {
	if path := os.Getenv(dialEnv); path != "" {
		if _, err := net.Dial("unix", path); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// patience bounds every wait. What is waited for comes far sooner on an idle machine.
const patience = time.Minute

// backend is a log with what else is served.
type backend struct {
	*merge.Log
	mu     sync.Mutex
	health error
}

func newBackend(t testing.TB, o merge.Options) *backend {
	t.Helper()
	l, err := merge.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return &backend{Log: l}
}

func (b *backend) Healthy() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.health
}

func (b *backend) setHealth(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.health = err
}

func (b *backend) Sources() []trigger.SourceStatus {
	return []trigger.SourceStatus{{Name: "cgroup", Up: true}, {Name: "ebpf", Err: errors.New("no BTF here")}}
}

func (b *backend) RelistPeriod() time.Duration { return 10 * time.Second }

func (b *backend) Runtime() Runtime {
	return Runtime{Endpoint: "unix:///run/r.sock", Name: "testd", Version: "1.2", APIVersion: "v1"}
}

// podOf is pod number n: namespaces a and b by turns, app=even or app=odd.
func podOf(n int) (event.Pod, *event.Sandbox) {
	name := fmt.Sprintf("p%03d", n)
	pod := event.Pod{UID: "uid-" + name, Namespace: string(rune('a' + n%2)), Name: name}
	app := []string{"even", "odd"}[n%2]
	return pod, &event.Sandbox{ID: "sandbox-" + name, Labels: map[string]string{"app": app}}
}

// change is what happens to a container of pod n, or to its sandbox when container is
// empty.
func change(n int, container string, to event.State) relist.Change {
	pod, sandbox := podOf(n)
	c := relist.Change{Pod: pod, Sandbox: sandbox, To: to, CreatedAt: time.Unix(1_700_000_000, int64(n)).UTC(),
		Detection: event.Detection{FoundBy: event.FoundEarly, ObservedAt: time.Unix(1_700_000_001, 0).UTC()}}
	if container == "" {
		c.From, c.Type = event.StateNonExistent, event.SandboxStarted
		return c
	}
	c.Container = &event.Container{ID: container, Name: "main", Image: "image"}
	switch to {
	case event.StateCreated:
		c.From, c.Type = event.StateNonExistent, event.ContainerCreated
	case event.StateRunning:
		c.From, c.Type = event.StateCreated, event.ContainerStarted
	case event.StateExited:
		code := int32(n)
		c.From, c.Type, c.Status = event.StateRunning, event.ContainerDied, &event.Status{ExitCode: &code}
	case event.StateNonExistent:
		c.From, c.Type = event.StateExited, event.ContainerRemoved
	}
	return c
}

// pods publishes n pods with a running container each.
func (b *backend) pods(n int) {
	for i := range n {
		b.Publish([]relist.Change{change(i, "", event.StateRunning), change(i, fmt.Sprintf("c%03d", i), event.StateRunning)})
	}
}

// running is a server.
type running struct {
	*Server
	t     testing.TB
	path  string // of its socket, where start made it
	stop  context.CancelFunc
	ended chan error
}

// shortDir makes a directory whose path leaves room for a socket's name.
func shortDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "hp")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// start serves b on a socket of its own until the test ends; set changes the server
// before.
func start(t testing.TB, b *backend, opts Options, set func(*Server)) *running {
	t.Helper()
	path := filepath.Join(shortDir(t), "s")
	l, err := ListenSocket(context.Background(), path, -1)
	if err != nil {
		t.Fatal(err)
	}
	r := serveOn(t, b, opts, set, Listeners{Local: l})
	r.path = path
	return r
}

// serveOn is start with listeners that are there.
func serveOn(t testing.TB, b *backend, opts Options, set func(*Server), ls Listeners) *running {
	t.Helper()
	opts.Backend = b
	if opts.Registerer == nil {
		opts.Registerer = prometheus.NewRegistry()
	}
	if opts.Limits.RequestsPerSecond == 0 {
		opts.Limits.RequestsPerSecond = 1e6
	}
	s, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	if set != nil {
		set(s)
	}
	r := &running{Server: s, t: t, ended: make(chan error, 1)}
	ctx, stop := context.WithCancel(context.Background())
	r.stop = stop
	go func() { r.ended <- s.Run(ctx, ls) }()
	t.Cleanup(r.end)
	return r
}

// end ends the server and waits for that.
func (r *running) end() {
	r.t.Helper()
	r.stop()
	select {
	case err := <-r.ended:
		if err != nil {
			r.t.Errorf("the server ended: %v", err)
		}
		r.ended <- nil
	case <-time.After(patience):
		r.t.Fatal("the server does not end")
	}
}

func (r *running) dial(opts ...grpc.DialOption) hybridplegv1.PodLifecycleServiceClient {
	return hybridplegv1.NewPodLifecycleServiceClient(r.conn(opts...))
}

func (r *running) conn(opts ...grpc.DialOption) *grpc.ClientConn {
	r.t.Helper()
	conn, err := grpc.NewClient("unix://"+r.path, append(opts, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { conn.Close() })
	return conn
}

// plain opens a connection and sends text.
func (r *running) plain(text string) net.Conn {
	r.t.Helper()
	conn, err := net.Dial("unix", r.path)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { conn.Close() })
	if text == "" {
		return conn
	}
	if _, err := conn.Write([]byte(text)); err != nil {
		r.t.Fatal(err)
	}
	return conn
}

// http returns a client for the socket; addresses are http://x/…
func (r *running) http() *http.Client {
	tr := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", r.path)
	}}
	r.t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: patience}
}

// eventually waits until ok is content.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(patience)
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("in vain waited for %s", what)
		}
	}
}

// turnedAway is how often a limit turned somebody away.
func (r *running) turnedAway(limit string) int {
	r.t.Helper()
	return counted(r.t, r.metrics.rejected, limit)
}

// counted is what a counter with these labels stands at.
func counted(t testing.TB, c *prometheus.CounterVec, labels ...string) int {
	t.Helper()
	var m dto.Metric
	if err := c.WithLabelValues(labels...).Write(&m); err != nil {
		t.Fatal(err)
	}
	return int(m.GetCounter().GetValue())
}

// within is a context for a call that is to be answered.
func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}
