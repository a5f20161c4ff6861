// Package daemon is what "hybrid-pleg run" does: it assembles a generator and
// its runtime, writes the events out, and serves agents, metrics and health.
package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/internal/output"
	"github.com/hybrid-pleg/hybrid-pleg/internal/serve"
	"github.com/hybrid-pleg/hybrid-pleg/internal/version"
	"github.com/hybrid-pleg/hybrid-pleg/internal/web"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/merge"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/pleg"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/relist"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/trigger"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/trigger/ebpf"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sync/errgroup"
)

// livenessGrace is how long /healthz waits for a first listing.
const livenessGrace = 3 * time.Minute

// Run runs until ctx ends, which is no error. One that wraps [ErrUsage] comes
// from the options, and nothing was started then.
func Run(ctx context.Context, opts Options) error {
	s, err := opts.check(ctx)
	if err != nil {
		return err
	}
	if err := s.checkOnlyTrigger(); err != nil {
		return err
	}

	// The embedded runtime outlives the generator, so that its end is not seen as
	// a runtime that fails.
	runtimeCtx, stopRuntime := context.WithCancel(context.WithoutCancel(ctx))
	defer stopRuntime()
	closeRuntime, err := s.startRuntime(runtimeCtx)
	if err != nil {
		return err
	}
	defer closeRuntime()

	// Before the generator, which has a state directory that only its Run gives back.
	listener, err := s.listen(ctx)
	if err != nil {
		return err
	}
	agents, err := s.listenAgents(ctx)
	if err != nil {
		closeListener(listener)
		return err
	}
	defer closeListener(listener)
	defer closeAgents(agents)

	registry := prometheus.NewRegistry()
	registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	g, err := pleg.New(pleg.Options{
		Endpoint:             s.choice.Endpoint,
		Triggers:             s.triggers,
		CgroupRoot:           s.CgroupRoot,
		RelistPeriod:         s.RelistPeriod,
		RelistPeriodDegraded: s.RelistPeriodDegraded,
		StateDir:             s.StateDir,
		JournalEvents:        s.JournalEvents,
		JournalBytes:         s.JournalBytes,
		Registerer:           registry,
		Log:                  s.log,
	})
	switch {
	case errors.Is(err, relist.ErrNotSocket), errors.Is(err, pleg.ErrOptions):
		return usage("%w", err)
	case err != nil:
		return err
	}
	// Opened before anything is published, so that the output begins with the
	// first event.
	watcher, err := g.Watch(merge.WatchOptions{})
	if err != nil {
		return err
	}
	defer watcher.Close()
	server, err := s.newAgents(g, agents, registry)
	if err != nil {
		return err
	}
	s.announce(listener, agents)

	group, ctx := errgroup.WithContext(ctx)
	ended := make(chan struct{})
	group.Go(func() error {
		defer close(ended)
		return g.Run(ctx)
	})
	group.Go(func() error { return connect(ctx, g, s.log) })
	group.Go(func() error {
		w := &writing{watcher: watcher, out: output.New(s.format, s.Stdout, s.Getenv), log: s.log}
		return w.run(ended)
	})
	if listener != nil {
		group.Go(func() error { return serveWeb(ctx, listener, web.Handler(g, registry, livenessGrace)) })
	}
	if server != nil {
		group.Go(func() error { return server.Run(ctx, agents) })
	}
	err = group.Wait()
	if errors.Is(err, errReaderGone) {
		s.log.Info("nobody reads the events any more: ending")
		return nil
	}
	return err
}

// announce says how this run is set up.
func (s *settings) announce(listener net.Listener, agents serve.Listeners) {
	attrs := []any{"version", version.Number(), "runtime", s.choice.Endpoint, "chosen", s.choice.Why, "triggers", s.triggers}
	if listener != nil {
		// Not s.HTTP: its port may be 0, for any.
		attrs = append(attrs, "http", "http://"+listener.Addr().String())
	}
	s.log.Info("hybrid-pleg runs", append(attrs, agentAttrs(agents)...)...)
}

// checkOnlyTrigger refuses to run on nothing but a trigger that can't work: who
// asked for just that one wants to know.
func (s *settings) checkOnlyTrigger() error {
	if len(s.triggers) != 1 || s.triggers[0] != trigger.SourceEBPF {
		return nil
	}
	if err := ebpf.Probe(); err != nil {
		return fmt.Errorf("--triggers ebpf can't be had, and is the only trigger asked for; put right what follows, or add cgroup or cri: %w", err)
	}
	return nil
}

// connect tells a wrong endpoint, which is fatal, from a runtime that is down.
func connect(ctx context.Context, g *pleg.Generator, log *slog.Logger) error {
	err := g.Connect(ctx)
	switch {
	case ctx.Err() != nil:
		return nil
	case errors.Is(err, relist.ErrNotCRI):
		return fmt.Errorf("%w; give the right one with --runtime-endpoint", err)
	case err != nil:
		// Why is in the log already, since listing it failed as well.
		log.Info("the runtime is not there yet; events begin when it is")
	}
	return nil
}
