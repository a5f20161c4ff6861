package arm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"github.com/hybrid-pleg/hybrid-pleg/internal/output"
	"github.com/hybrid-pleg/hybrid-pleg/peers/kubelet/upstream"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/features"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
	"k8s.io/kubernetes/pkg/kubelet/metrics"
	"k8s.io/kubernetes/pkg/kubelet/pleg"
	"k8s.io/utils/clock"
)

// What the kubelet sets in pkg/kubelet/kubelet.go (v1.37).
const (
	// DefaultRelistPeriod is the pause between relists of everything.
	DefaultRelistPeriod = time.Second

	relistThreshold  = 3 * time.Minute
	channelCapacity  = 1000
	maxStreamRetries = 5
)

// drainTime is how long the end waits for a reader that takes no events.
const drainTime = 500 * time.Millisecond

// Options are the settings of [Run].
type Options struct {
	// Endpoint is the runtime's socket, as unix:///path.
	Endpoint string
	// Evented adds the kubelet's EventedPLEG, which has a pod looked at when the
	// runtime announces that a container of it has stopped.
	Evented bool
	// RelistPeriod is the pause between relists of everything; 0:
	// [DefaultRelistPeriod].
	RelistPeriod time.Duration
	// Metrics takes requests for the kubelet's metrics, among them how often it calls
	// the runtime; Run closes it. Nil for none.
	Metrics net.Listener
	// Out takes the events, a line of JSON each.
	Out io.Writer
	Log *slog.Logger
}

// Run runs the generator until ctx ends, or nobody reads the events any more,
// which are no errors. As in the kubelet, it fails when the runtime is down at the
// beginning, and goes on when it goes away later.
//
// The kubelet's feature gates, metrics and default logger are global, and its
// goroutines can be told to end but not waited for; so Run is for a process that
// does nothing else and ends with it.
func Run(ctx context.Context, o Options) (err error) {
	if o.RelistPeriod <= 0 {
		o.RelistPeriod = DefaultRelistPeriod
	}
	logger := logr.FromSlogHandler(o.Log.Handler())
	klog.SetLogger(logger)
	// Not ctx itself: what is under way at the end is not to be logged as failed.
	kubeletCtx, cancel := context.WithCancel(klog.NewContext(context.WithoutCancel(ctx), logger))
	defer cancel()
	gates := map[string]bool{string(features.EventedPLEG): o.Evented}
	if err := utilfeature.DefaultMutableFeatureGate.SetFromMap(gates); err != nil {
		return fmt.Errorf("set the kubelet's feature gates: %w", err)
	}
	metrics.Register()
	if o.Metrics != nil {
		defer serveMetrics(o.Metrics, o.Log)()
	}

	clients, err := upstream.Connect(kubeletCtx, o.Endpoint)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, clients.Close(kubeletCtx)) }()
	dir, err := os.MkdirTemp("", "kubelet-pleg-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	runtime, err := upstream.NewRuntime(kubeletCtx, clients.Runtime, clients.Images, dir)
	if err != nil {
		return err
	}

	events := make(chan *pleg.PodLifecycleEvent, channelCapacity)
	cache := kubecontainer.NewCache()
	generic := pleg.NewGenericPLEG(
		&observedRuntime{Runtime: runtime, events: events}, events,
		&pleg.RelistDuration{RelistPeriod: o.RelistPeriod, RelistThreshold: relistThreshold},
		cache, clock.RealClock{})
	generic.Start(kubeletCtx)
	if stopper, ok := generic.(interface{ Stop() }); ok {
		defer stopper.Stop()
	}
	if o.Evented {
		pleg.NewEventedPLEG(clients.Runtime, generic, maxStreamRetries).Start(kubeletCtx)
	}
	t := &telling{events: generic.Watch(), translator: newTranslator(cache), out: output.NewNDJSON(o.Out), log: o.Log}
	return t.run(ctx)
}

// serveMetrics serves the kubelet's metrics until stop is called.
func serveMetrics(l net.Listener, log *slog.Logger) (stop func()) {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(legacyregistry.DefaultGatherer, promhttp.HandlerOpts{}))
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(l) }()
	log.Info("serving metrics", "http", "http://"+l.Addr().String())
	return func() {
		_ = srv.Close()
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			log.Warn("metrics are no longer served", "err", err)
		}
	}
}

// telling writes out what the generator sends.
type telling struct {
	events     <-chan *pleg.PodLifecycleEvent
	translator *translator
	out        output.Writer
	log        *slog.Logger
}

// run writes until ctx ends and what was sent by then is written. A reader that
// takes nothing does not hold up the end for longer than drainTime; the write that
// hangs is then left to the end of the process.
func (t *telling) run(ctx context.Context) error {
	written := make(chan error, 1)
	go func() { written <- t.write(ctx) }()
	var err error
	select {
	case err = <-written:
	case <-ctx.Done():
		select {
		case err = <-written:
		case <-time.After(drainTime):
			return errors.New("the output takes no more: the last events may not be written")
		}
	}
	switch {
	case errors.Is(err, syscall.EPIPE):
		t.log.Info("nobody reads the events any more: ending")
		return nil
	case err != nil:
		return fmt.Errorf("write events: %w", err)
	}
	return nil
}

func (t *telling) write(ctx context.Context) error {
	for {
		select {
		case e := <-t.events:
			if err := t.tell(e); err != nil {
				return err
			}
			continue
		default:
		}
		// Nothing waits.
		if err := t.out.Flush(); err != nil || ctx.Err() != nil {
			return err
		}
		select {
		case e := <-t.events:
			if err := t.tell(e); err != nil {
				return err
			}
		case <-ctx.Done():
		}
	}
}

func (t *telling) tell(e *pleg.PodLifecycleEvent) error {
	out := t.translator.event(e, time.Now())
	if out == nil {
		if o, ok := e.Data.(*observation); ok && o.foundBy == event.FoundStartup {
			t.log.Info("everything was listed for the first time", "pods", len(o.pods))
		}
		return nil
	}
	return t.out.Write(out)
}
