package pleg

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/merge"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/relist"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/state"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/trigger"
)

// Generator generates pod lifecycle events. Its methods are safe for concurrent
// use.
type Generator struct {
	opts    Options
	client  *relist.Client // nil when the runtime was given
	engine  *relist.Engine
	log     *merge.Log
	loop    *trigger.Loop
	metrics *metrics
	running atomic.Bool
	period  atomic.Int64 // see RelistPeriod

	keeper *state.Keeper // nil without a state directory
	// kernel is closed by kernelKnown: see awaitKernel.
	kernel      chan struct{}
	kernelKnown func()

	mu      sync.Mutex
	sources []trigger.SourceStatus
}

// New returns a generator that has looked at nothing yet. The error wraps
// [ErrOptions], or [relist.ErrNotSocket] for an endpoint that can't be one, or
// [state.ErrInUse]. It takes the state directory, which is freed at the end of Run.
func New(opts Options) (*Generator, error) {
	opts, err := opts.complete()
	if err != nil {
		return nil, err
	}
	g := &Generator{opts: opts, kernel: make(chan struct{})}
	g.kernelKnown = sync.OnceFunc(func() { close(g.kernel) })
	if err := g.openState(); err != nil {
		return nil, err
	}
	if err := g.assemble(); err != nil {
		if g.keeper != nil {
			_ = g.keeper.Close()
		}
		return nil, err
	}
	return g, nil
}

// assemble makes the parts and puts them together.
func (g *Generator) assemble() (err error) {
	opts := g.opts
	if opts.Runtime == nil {
		if g.client, err = relist.NewClient(opts.Endpoint); err != nil {
			return err
		}
		g.opts.Runtime = g.client
	}
	g.metrics = newMetrics(g)
	g.opts.Runtime = newCounted(g.opts.Runtime, g.metrics.calls)
	restored := g.restored()
	if g.log, err = merge.New(merge.Options{
		Epoch:         opts.Epoch,
		JournalEvents: opts.JournalEvents,
		JournalBytes:  opts.JournalBytes,
		OnEvent:       g.onEvent,
		Restore:       restored,
	}); err != nil {
		return fmt.Errorf("%w: %w", ErrOptions, err)
	}
	sources, alive := g.buildSources()
	for _, src := range sources {
		g.sources = append(g.sources, trigger.SourceStatus{Name: src.Name()})
	}
	if g.engine, err = relist.New(relist.Options{
		Runtime:         g.opts.Runtime,
		Sink:            func(changes []relist.Change) { g.log.Publish(changes) },
		Store:           relist.StoreOptions{Alive: alive, OnAnomaly: g.metrics.anomaly},
		ListTimeout:     opts.ListTimeout,
		StatusDeadline:  opts.StatusDeadline,
		HealthThreshold: opts.HealthThreshold,
		Locate:          newLocate(),
		OnRelist:        g.metrics.relist,
		Log:             opts.Log,
	}); err != nil {
		return fmt.Errorf("%w: %w", ErrOptions, err)
	}
	g.restoreRecords(restored)
	if restored == nil || alive == nil {
		g.kernelKnown()
	}
	g.loop = trigger.NewLoop(trigger.LoopOptions{
		Scheduler: trigger.SchedulerOptions{
			Period:         opts.RelistPeriod,
			PeriodDegraded: opts.RelistPeriodDegraded,
			Rate:           opts.EarlyRelistRate,
			Observer:       g.metrics,
		},
		Sources:  sources,
		View:     view{g.engine.Store()},
		Look:     g.look,
		OnSource: g.sourceStatus,
		Log:      opts.Log,
	})
	if opts.Registerer != nil {
		if err := opts.Registerer.Register(g.metrics); err != nil {
			return fmt.Errorf("register metrics: %w", err)
		}
	}
	return nil
}

// ErrRunTwice is returned by a second Run.
var ErrRunTwice = errors.New("a generator runs only once")

// Run generates events until ctx ends, and returns nil then, having ended all
// that it started; watchers are told [merge.ErrClosed] once they have got what
// is in the journal. It may be called once. Its metrics are unregistered at its end.
func (g *Generator) Run(ctx context.Context) error {
	if g.running.Swap(true) {
		return ErrRunTwice
	}
	endState := g.keepState(ctx)
	timer := time.AfterFunc(kernelWait, g.kernelKnown)
	g.loop.Run(ctx)
	timer.Stop()
	g.engine.Close()
	g.log.Close()
	endState()
	if g.opts.Registerer != nil {
		g.opts.Registerer.Unregister(g.metrics)
	}
	if g.client != nil {
		return g.client.Close()
	}
	return nil
}

// Connect makes sure that something speaks CRI at the endpoint. It need not be
// called; it is for programs that want to tell a wrong endpoint
// ([relist.ErrNotCRI]) from a runtime that is down ([relist.ErrUnavailable])
// before they go on. What it opens, the end of Run closes.
func (g *Generator) Connect(ctx context.Context) error {
	if g.client == nil {
		return nil
	}
	return g.client.Connect(ctx)
}

// Watch opens a watcher; see [merge.Log.Watch].
func (g *Generator) Watch(opts merge.WatchOptions) (*merge.Watcher, error) {
	return g.log.Watch(opts)
}

// Snapshot returns all pods as told so far.
func (g *Generator) Snapshot() merge.Snapshot { return g.log.Snapshot() }

// Healthy is nil while the last good listing of everything is recent enough, and
// otherwise says why not. A runtime that does not answer makes a generator
// unhealthy; a watcher or a trigger that fails does not.
func (g *Generator) Healthy() error { return g.engine.Healthy() }

// RequestRelist asks for an early look at a pod, or at everything when uid is
// empty. It does not wait.
func (g *Generator) RequestRelist(uid string) { g.loop.Request(uid, false) }

// RequestReinspect asks for an early look at a pod that ends in a PodSync event
// if nothing has changed. It does not wait, and does nothing for a pod that is
// not there.
func (g *Generator) RequestReinspect(uid string) { g.loop.Request(uid, true) }

// Sources tells how the triggers are doing, in the order in which they were
// asked for.
func (g *Generator) Sources() []trigger.SourceStatus {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.sources)
}

func (g *Generator) sourceStatus(st trigger.SourceStatus) {
	g.kernelReported(st)
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range g.sources {
		if g.sources[i].Name == st.Name {
			g.sources[i] = st
		}
	}
}

func (g *Generator) onEvent(e *event.Event) {
	g.metrics.event(e)
	if g.opts.OnEvent != nil {
		g.opts.OnEvent(e)
	}
}

// look carries out what the scheduler decided.
func (g *Generator) look(ctx context.Context, look trigger.Look) trigger.Looked {
	g.awaitKernel(ctx)
	res := g.engine.Relist(ctx, relist.Request{
		PodUID:    look.PodUID,
		Periodic:  look.Reason == trigger.ReasonPeriodic || look.Reason == trigger.ReasonStartup,
		Reason:    string(look.Reason),
		Reinspect: look.Reinspect,
		Expect:    look.Expect,
		Hint: func(podUID, itemID string) (string, time.Time) {
			hint, _ := look.Hint(podUID, itemID)
			return string(hint.Source), hint.At
		},
	})
	out := trigger.Looked{
		At: res.At, Took: res.Took, Err: res.Err,
		Unavailable: errors.Is(res.Err, relist.ErrUnavailable),
	}
	for _, pc := range res.Changes {
		for i := range pc.Changes {
			if c := &pc.Changes[i]; c.From != c.To { // else only labels are others
				out.Found = append(out.Found, trigger.Found{ID: c.ItemID(), State: c.To})
			}
		}
	}
	return out
}

// view shows the records to the scheduler.
type view struct{ *relist.Store }

func (v view) HasPod(uid string) bool {
	_, ok := v.Pod(uid)
	return ok
}
