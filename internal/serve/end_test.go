package serve

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"

	hybridplegv1 "github.com/hybrid-pleg/hybrid-pleg/api/hybridpleg/v1"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/merge"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/relist"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
)

// TestEnd has watchers that read, and clients of all kinds that hang, when the server
// ends: the former get all, the latter do not hold it up.
func TestEnd(t *testing.T) {
	b := newBackend(t, merge.Options{Epoch: "e"})
	b.pods(1)
	// As long as it may take here: the watchers are told all when the log is closed.
	r := start(t, b, Options{}, func(s *Server) { s.drainTime = patience })
	stream, err := r.dial().Watch(within(t), &hybridplegv1.WatchRequest{})
	if err != nil {
		t.Fatal(err)
	}
	wantItems(t, items(t, stream, 2), "pod:p000 synced@2")
	reader := open(t, r.http(), "/v1/events?since=e-2").body
	lines(t, reader, 1)

	// Clients that hang.
	silent, err := r.dial().Watch(within(t), &hybridplegv1.WatchRequest{})
	if err != nil {
		t.Fatal(err)
	}
	r.plain("GET /v1/events HTTP/1.1\r\nHost: x\r\n\r\n")
	r.plain("")
	r.plain("GET /v1/ev")
	if _, err := healthpb.NewHealthClient(r.conn()).Watch(within(t), &healthpb.HealthCheckRequest{}); err != nil {
		t.Fatal(err)
	}
	if _, err := reflectionpb.NewServerReflectionClient(r.conn()).ServerReflectionInfo(within(t)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the watches to begin", func() bool { return r.watches.count() == 4 })

	r.stop()
	b.Publish([]relist.Change{change(0, "c000", event.StateExited)})
	b.Close()
	wantItems(t, items(t, stream, 1), "event@3:c000/ContainerDied")
	_, err = stream.Recv()
	wants(t, err, codes.Unavailable, "the daemon ends: connect again and resume")
	if got := lines(t, reader, 1); got[0][:9] != `{"event":` {
		t.Errorf("%q", got)
	}
	if _, err := reader.ReadByte(); err != io.EOF {
		t.Errorf("the stream's end: %v", err)
	}
	r.end()
	for err = nil; err == nil; {
		_, err = silent.Recv()
	}
	wants(t, err, codes.Unavailable, "")
	if b.Stats().Watchers != 0 {
		t.Errorf("%d watchers are open", b.Stats().Watchers)
	}
}

// TestEndOfTheStuck has clients that read nothing while much is to be sent.
func TestEndOfTheStuck(t *testing.T) {
	b := newBackend(t, merge.Options{})
	r := start(t, b, Options{Limits: Limits{WatcherBuffer: minWatcherBuffer}}, nil)
	if _, err := r.dial().Watch(within(t), &hybridplegv1.WatchRequest{}); err != nil {
		t.Fatal(err)
	}
	r.plain("GET /v1/events HTTP/1.1\r\nHost: x\r\n\r\n")
	eventually(t, "the watches to begin", func() bool { return r.watches.count() == 2 })
	b.flood(0, 2000)
	r.end()
	if _, err := os.Lstat(r.path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is there still: %v", err)
	}
}

// TestEndBeforeBegin has a context that has ended already.
func TestEndBeforeBegin(t *testing.T) {
	s, err := New(Options{Backend: newBackend(t, merge.Options{})})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	path := filepath.Join(shortDir(t), "s")
	local, err := ListenSocket(context.Background(), path, -1)
	if err != nil {
		t.Fatal(err)
	}
	http, err := ListenHTTP(context.Background(), "127.0.0.1:0", TLSFiles{}, s.log)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Run(ctx, Listeners{Local: local, HTTP: http}); err != nil {
		t.Error(err)
	}
	if _, err := http.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the listener is open still: %v", err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is there still: %v", err)
	}
}
