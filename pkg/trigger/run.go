package trigger

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// LoopOptions configures a [Loop]. View and Look are required.
type LoopOptions struct {
	// Scheduler configures the decisions; its Sources are set from Sources.
	Scheduler SchedulerOptions
	Sources   []Source
	View      View
	// Look carries out a decision. It is called from a goroutine of its own and
	// must return soon after ctx ends.
	Look func(ctx context.Context, look Look) Looked
	// OnSource is told when a source comes up or goes down, of several sources
	// possibly at the same time. It must not block.
	OnSource func(SourceStatus)
	Log      *slog.Logger
}

// Loop puts a [Scheduler] and its sources to work.
type Loop struct {
	opts LoopOptions
	box  *mailbox
}

// NewLoop returns a loop that does nothing until it is run.
func NewLoop(opts LoopOptions) *Loop {
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	if opts.OnSource == nil {
		opts.OnSource = func(SourceStatus) {}
	}
	opts.Scheduler.Sources = nil
	for _, src := range opts.Sources {
		opts.Scheduler.Sources = append(opts.Scheduler.Sources, src.Name())
	}
	return &Loop{opts: opts, box: newMailbox()}
}

// Request asks for a look at a pod, or at everything when uid is empty. Requests
// for one pod that come in together share a look. With reinspect, a PodSync
// follows if nothing has changed. It may be called from any goroutine and never
// blocks; while thousands of pods wait to be looked at, a request comes down to a
// look at everything.
func (l *Loop) Request(uid string, reinspect bool) {
	l.box.request(uid, reinspect)
}

// Run runs the sources and takes decisions until ctx ends. It returns when all it
// started has ended. It may be called once.
func (l *Loop) Run(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	for _, src := range l.opts.Sources {
		l.opts.OnSource(SourceStatus{Name: src.Name()})
		v := &supervisor{source: src, box: l.box, report: l.opts.OnSource, log: l.opts.Log}
		wg.Go(func() { v.run(ctx) })
	}

	s := NewScheduler(l.opts.Scheduler, l.opts.View, time.Now())
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.box.bell:
		case <-timer.C:
		}
		l.deliver(s)
		for {
			looks, wake := s.Next(time.Now())
			for _, look := range looks {
				wg.Go(func() {
					res := l.opts.Look(ctx, look)
					res.Look = look
					l.box.looked(res)
				})
			}
			if len(looks) == 0 {
				timer.Reset(time.Until(wake))
				break
			}
		}
	}
}

// deliver hands the collected mail to the scheduler. Results go first: a signal
// that came in meanwhile is compared with the newest records.
func (l *Loop) deliver(s *Scheduler) {
	mail, now := l.box.collect(), time.Now()
	for _, res := range mail.looked {
		s.Done(res, now)
	}
	for name, states := range mail.states {
		for _, up := range states {
			s.SourceState(name, up, now)
		}
	}
	for _, sig := range mail.signals {
		s.Signal(sig, now)
	}
	for uid, reinspect := range mail.requests {
		s.Request(uid, reinspect, now)
	}
}
