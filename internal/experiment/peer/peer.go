// Package peer holds the plainest generators there are, to compare others with: the
// runtime's event stream as it comes, and the list of containers asked for again and
// again. Each is a process that tells events in the format of hybrid-pleg run.
package peer

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/internal/experiment/cri"
	"github.com/hybrid-pleg/hybrid-pleg/internal/output"
	"github.com/hybrid-pleg/hybrid-pleg/internal/web"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/trigger"
	"github.com/prometheus/client_golang/prometheus"
)

// Options are the settings of a peer.
type Options struct {
	// Endpoint is the runtime's socket, as unix:///path.
	Endpoint string
	// Period is the pause between lists, of [Poll].
	Period time.Duration
	// Stdout takes the events, Log what else there is to say.
	Stdout io.Writer
	Log    *slog.Logger
}

// peer is what both have in common.
type peer struct {
	Options
	rt    *cri.Conn
	out   output.Writer
	calls *prometheus.CounterVec

	epoch    string
	sequence uint64

	mu  sync.Mutex
	why error // not up, and why
}

// errStarting is why a peer is not up yet.
var errStarting = errors.New("it has not begun")

// run connects, serves metrics and readiness as hybrid-pleg run does, and generates.
func run(ctx context.Context, o Options, generate func(context.Context, *peer) error) error {
	rt, err := cri.Dial(ctx, o.Endpoint)
	if err != nil {
		return err
	}
	defer rt.Close()
	p := &peer{Options: o, rt: rt, out: output.NewNDJSON(o.Stdout), epoch: rand.Text(), why: errStarting}
	p.calls = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "hybrid_pleg_cri_calls_total", Help: "Calls of the runtime, by method of the CRI; a stream is one.",
	}, []string{"method"})
	registry := prometheus.NewRegistry()
	registry.MustRegister(p.calls)
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: web.Handler(p, registry, 0), ReadHeaderTimeout: 5 * time.Second}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(listener) })
	defer serving.Wait()
	defer func() { _ = server.Close() }()
	o.Log.Info("the peer runs", "runtime", o.Endpoint, "http", "http://"+listener.Addr().String())
	err = generate(ctx, p)
	if ctx.Err() != nil || errors.Is(err, syscall.EPIPE) {
		return nil
	}
	return err
}

// Healthy implements web.Generator.
func (p *peer) Healthy() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.why
}

// Sources implements web.Generator.
func (*peer) Sources() []trigger.SourceStatus { return nil }

func (p *peer) up() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.why = nil
}

// tell writes an event about a container, or about a sandbox when container is nil.
func (p *peer) tell(typ event.Type, pod event.Pod, sandbox string, container *event.Container, d event.Detection) error {
	p.sequence++
	id := sandbox
	e := &event.Event{
		Epoch: p.epoch, Sequence: p.sequence, Type: typ, Time: time.Now().UTC(),
		Pod: pod, Sandbox: &event.Sandbox{ID: sandbox}, Container: container, Detection: d,
	}
	if container != nil {
		id = container.ID
	}
	e.ID = id + "/" + string(typ)
	if err := p.out.Write(e); err != nil {
		return fmt.Errorf("write events: %w", err)
	}
	return nil
}
