package relist

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
)

// Options configures an [Engine]. Runtime and Sink are required.
type Options struct {
	Runtime Runtime
	// Sink takes the changes of one pod, in order. It is called from one goroutine
	// a pod and must not block for long. The slice is the sink's to keep.
	Sink  func([]Change)
	Store StoreOptions
	// ListTimeout bounds one relist. 0 means 30 seconds.
	ListTimeout time.Duration
	// StatusDeadline is how long the events of a pod wait for their details. 0
	// means a second.
	StatusDeadline time.Duration
	// HealthThreshold is how old the last good listing may be. 0 means the
	// kubelet's three minutes.
	HealthThreshold time.Duration
	// Locate finds where the kernel keeps a container that has started. It takes a
	// longer answer from the runtime. Nil: nothing is told of that.
	Locate Locate
	// OnRelist is told of each relist when it ends. It must not block.
	OnRelist func(Request, Result)
	Log      *slog.Logger
}

// Request asks for a relist.
type Request struct {
	// PodUID names the pod to look at; empty for all.
	PodUID string
	// Periodic marks the relist that comes round by itself, as against an early
	// one.
	Periodic bool
	// Reason says in a word why, for logs and metrics.
	Reason string
	// Reinspect asks for a PodSync when nothing has changed.
	Reinspect bool
	// Expect names containers of which a start or an end was announced: their
	// details are read while the pod is being listed.
	Expect []string
	// Hint says which trigger announced a change, and when; nil: none did. It is
	// called with the store locked and must not call back.
	Hint func(podUID, itemID string) (trigger string, at time.Time)
}

// Result is what came of a relist.
type Result struct {
	// At is when the observation was begun, Took how long the listing took.
	At   time.Time
	Took time.Duration
	// Changes are the differences found, pod by pod, before details are added.
	Changes []PodChanges
	// Err is why nothing could be listed. Nothing has changed then.
	Err error
}

// Engine relists. Its methods are safe for concurrent use. Relists of different
// pods, and of all pods, may overlap; a second relist of the same scope waits for
// the first.
type Engine struct {
	opts  Options
	store *Store

	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	qmu    sync.Mutex
	queues map[string]*queue
	// untold are the pods that the first listing of everything changed, until that
	// was handed on.
	untold map[string]bool

	readers readers
	starts  starts
	flights flights
	health  health
}

// New returns an engine that has listed nothing yet. Close it to end the
// goroutines that hand changes on.
func New(opts Options) (*Engine, error) {
	if opts.Runtime == nil || opts.Sink == nil {
		return nil, errors.New("relist: Options.Runtime and Options.Sink are required")
	}
	if opts.ListTimeout <= 0 {
		opts.ListTimeout = 30 * time.Second
	}
	if opts.StatusDeadline <= 0 {
		opts.StatusDeadline = time.Second
	}
	if opts.HealthThreshold <= 0 {
		opts.HealthThreshold = 3 * time.Minute
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	e := &Engine{
		opts:    opts,
		queues:  make(map[string]*queue),
		untold:  make(map[string]bool),
		readers: newReaders(),
		flights: flights{open: make(map[string]*flight)},
		health:  health{threshold: opts.HealthThreshold, log: opts.Log},
	}
	e.store = NewStore(e.tellAnomalies(opts.Store))
	e.ctx, e.cancel = context.WithCancel(context.Background())
	return e, nil
}

// Store gives access to the records.
func (e *Engine) Store() *Store { return e.store }

// Close hands on what is queued, without waiting for details, and returns when
// all goroutines have ended. No relist may be under way or follow.
func (e *Engine) Close() {
	e.cancel()
	e.wg.Wait()
}

// Relist lists, applies what it saw and queues the changes. It returns once they
// are queued, not when they have been handed on.
func (e *Engine) Relist(ctx context.Context, req Request) Result {
	land, err := e.flights.take(ctx, req.PodUID)
	if err != nil {
		return Result{At: time.Now(), Err: err}
	}
	defer land()

	res := Result{At: time.Now()}
	reads := e.readAhead(req.Expect)
	o, err := e.list(ctx, req.PodUID)
	if err != nil {
		res.Took, res.Err = time.Since(res.At), describe(err)
	} else {
		foundBy := e.foundBy(req)
		res.At = o.At
		res.Took = time.Since(o.At)
		res.Changes = e.store.Apply(o, func(pc PodChanges) {
			for i := range pc.Changes {
				pc.Changes[i].Detection = detection(req, foundBy, &pc.Changes[i])
			}
			e.enqueue(pc.Pod.UID, pc.Changes, reads, foundBy == event.FoundStartup && req.PodUID == "")
		})
		if req.Reinspect && !tells(res.Changes) {
			e.reinspected(req, o.At)
		}
	}
	for _, a := range reads { // which no change wants
		a.cancel()
	}
	// A relist that its caller gave up on says nothing about the runtime.
	if req.PodUID == "" && (res.Err == nil || !errors.Is(ctx.Err(), context.Canceled)) {
		e.health.listed(res)
	}
	if e.opts.OnRelist != nil {
		e.opts.OnRelist(req, res)
	}
	return res
}

func (e *Engine) list(ctx context.Context, uid string) (*Observation, error) {
	ctx, cancel := context.WithTimeout(ctx, e.opts.ListTimeout)
	defer cancel()
	if uid == "" {
		return listAll(ctx, e.opts.Runtime, e.store)
	}
	return listPod(ctx, e.opts.Runtime, e.store, uid)
}

func (e *Engine) foundBy(req Request) event.FoundBy {
	switch {
	case !e.health.everListed():
		return event.FoundStartup
	case req.Periodic:
		return event.FoundPeriodic
	default:
		return event.FoundEarly
	}
}

func detection(req Request, foundBy event.FoundBy, c *Change) event.Detection {
	d := event.Detection{FoundBy: foundBy, ObservedAt: c.Detection.ObservedAt}
	if req.Hint != nil && foundBy == event.FoundEarly {
		d.Trigger, d.SignalAt = req.Hint(c.Pod.UID, c.ItemID())
		if !d.SignalAt.IsZero() {
			d.SignalAt = d.SignalAt.UTC()
		}
	}
	return d
}

// tells reports whether any of the changes makes an event.
func tells(pods []PodChanges) bool {
	return slices.ContainsFunc(pods, func(pc PodChanges) bool {
		return slices.ContainsFunc(pc.Changes, func(c Change) bool { return c.Type != "" })
	})
}

// reinspected tells the caller who asked for it that the pod was looked at.
func (e *Engine) reinspected(req Request, at time.Time) {
	c, ok := e.store.podAsked(req.PodUID)
	if !ok {
		return
	}
	c.Detection = event.Detection{FoundBy: event.FoundEarly, ObservedAt: at.UTC()}
	e.enqueue(c.Pod.UID, []Change{c}, nil, false)
}
