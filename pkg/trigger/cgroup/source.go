package cgroup

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"

	"github.com/fsnotify/fsnotify"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/trigger"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/trigger/cgroupfs"
)

// DefaultMaxCandidates is used for [Options.MaxCandidates] when that is 0.
const DefaultMaxCandidates = 512

// Options configure a [Source]. The zero value finds the host's hierarchies by itself.
type Options struct {
	// Root is the only directory to watch, with what is below it. It may be part of
	// a cgroup hierarchy, or any directory shaped like one: with a cgroup.events
	// file in each container's directory, v2's signals come of it, and it needs no
	// Linux.
	Root string
	// MaxCandidates bounds the watches on directories that hold no container yet.
	MaxCandidates int
	// Log takes what an operator should know; nil is silent.
	Log *slog.Logger
}

// Source watches the cgroup file system. It implements [trigger.Source].
type Source struct {
	opts Options
	log  *slog.Logger
	ran  atomic.Bool // Run got as far as Up once

	// alive has the directory of every container by ID while Run runs.
	mu    sync.Mutex
	alive map[string]string

	// What tests replace.
	newWatcher func() (watcher, error)
	detect     func() (cgroupfs.Layout, error)
}

var _ trigger.Source = (*Source)(nil)

// New returns a source. It touches nothing before [Source.Run].
func New(opts Options) *Source {
	if opts.MaxCandidates <= 0 {
		opts.MaxCandidates = DefaultMaxCandidates
	}
	log := opts.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Source{opts: opts, log: log, newWatcher: newWatcher, detect: cgroupfs.Detect}
}

// Name is "cgroup".
func (s *Source) Name() trigger.SourceName { return trigger.SourceCgroup }

// Run watches until ctx ends. An error that wraps [trigger.ErrUnsupported] says
// that this host shows no cgroups here and what to mount; one that wraps
// [ErrLimit] that a limit was reached and which to raise.
func (s *Source) Run(ctx context.Context, sink trigger.Sink) error {
	trees, err := s.trees()
	if err != nil {
		return err
	}
	w, err := s.newWatcher()
	if err != nil {
		return limitError(err, "open a watch queue")
	}
	defer func() { _ = w.Close() }()
	defer s.forget()

	m := &mirror{
		ctx: ctx, log: s.log, watch: w, sink: sink, index: s, trees: trees,
		maxCandidates: s.opts.MaxCandidates,
		nodes:         make(map[string]*node),
		quiet:         true,
	}
	if err := m.syncAll(); err != nil {
		return endOf(ctx, err)
	}
	m.quiet = false
	s.log.Debug("watching cgroups", "roots", m.roots(), "cgroups", len(m.nodes), "candidates", m.candidates)

	sink.Up()
	if s.ran.Swap(true) {
		m.signalLost()
	}
	return endOf(ctx, m.loop())
}

// endOf drops an error that came of the context's end.
func endOf(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// loop turns events into signals. It is the only reader of the watcher's channels
// and does nothing that waits: when the kernel's queue is full, events are lost.
func (m *mirror) loop() error {
	for {
		var err error
		select {
		case <-m.ctx.Done():
			return nil
		case ev, ok := <-m.watch.Events():
			if !ok {
				return errors.New("the watch queue was closed")
			}
			err = m.handle(ev)
		case err = <-m.watch.Errors():
			if errors.Is(err, fsnotify.ErrEventOverflow) {
				m.log.Debug("the kernel's watch queue overflowed: scanning all cgroups anew")
				m.signalLost()
				err = m.syncAll()
			} else {
				err = limitError(err, "read the watch queue")
			}
		}
		if err != nil {
			return err
		}
	}
}

// Alive asks the kernel whether the container has a process. known is false when
// this source has not seen its cgroup, or no longer does, or isn't running: then
// the answer means nothing. It may be called from any goroutine and reads one
// small file; on v1 one for each cgroup within the container.
func (s *Source) Alive(containerID string) (alive, known bool) {
	s.mu.Lock()
	dir, ok := s.alive[containerID]
	s.mu.Unlock()
	if !ok {
		return false, false
	}
	alive, err := cgroupfs.HasProcs(dir)
	switch {
	case err == nil:
		return alive, true
	case isGone(err):
		// Removed, which takes an empty cgroup. Only where files are written like any
		// others may the directory be there without them.
		_, err := os.Stat(dir)
		return false, isGone(err)
	default:
		return false, false
	}
}

// added and removed keep the index behind Alive. A container that shows in two
// hierarchies stays with the first, which is v2 where there is one, unless that
// one had it only later.
func (s *Source) added(id, dir string, preferred bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.alive == nil {
		s.alive = make(map[string]string)
	}
	if _, ok := s.alive[id]; !ok || preferred {
		s.alive[id] = dir
	}
}

func (s *Source) removed(id, dir string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.alive[id] == dir {
		delete(s.alive, id)
	}
}

func (s *Source) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.alive = nil
}
