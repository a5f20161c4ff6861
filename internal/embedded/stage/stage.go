// Package stage sets up everything that the endpoint "embedded" stands for: an
// embedded runtime on a private socket, its cgroups as a directory, and a play
// going on.
package stage

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/hybrid-pleg/hybrid-pleg/internal/embedded"
	"github.com/hybrid-pleg/hybrid-pleg/internal/embedded/cgrouptree"
	"github.com/hybrid-pleg/hybrid-pleg/internal/embedded/workload"
)

// Options configures a [Stage]. The zero value is what a newcomer gets to see.
type Options struct {
	// Workload says what is played; see [workload.Options].
	Workload workload.Options
	// Empty leaves the stage empty, for who fills it otherwise.
	Empty bool
	// Lag is how far the CRI is behind the cgroups; see [embedded.Options].
	Lag embedded.Lag
	// Account is told what befalls containers; see [embedded.Options].
	Account func(id string, what embedded.Moment)
	// Seed makes IDs and lags repeatable; 0 draws one.
	Seed uint64
	// Version is what the runtime reports as its version.
	Version string
	// Logger gets what goes wrong; nil discards it.
	Logger *slog.Logger
}

// Stage is a running embedded runtime with all that belongs to it. Close it when
// done.
type Stage struct {
	runtime *embedded.Runtime
	server  *embedded.Server
	tree    *cgrouptree.Tree
	dir     string
	stop    context.CancelFunc
	played  chan error
}

// Start sets a stage up in a new private directory below the one for temporary
// files. The play ends with ctx, all else with Close.
func Start(ctx context.Context, o Options) (_ *Stage, err error) {
	s := &Stage{played: make(chan error, 1)}
	ctx, s.stop = context.WithCancel(ctx)
	defer func() {
		if err != nil {
			close(s.played)
			err = errors.Join(err, s.Close())
		}
	}()
	if s.dir, err = os.MkdirTemp("", "hybrid-pleg-"); err != nil {
		return nil, fmt.Errorf("a directory for the embedded runtime: %w", err)
	}
	if s.tree, err = cgrouptree.New(s.dir); err != nil {
		return nil, err
	}
	s.runtime = embedded.New(embedded.Options{
		Seed: o.Seed, Lag: o.Lag, Mirror: s.tree, Account: o.Account, Version: o.Version, Logger: o.Logger,
	})
	// Not ctx: who reads from the socket may want to stop before the socket goes.
	if s.server, err = embedded.Serve(context.WithoutCancel(ctx), s.runtime, filepath.Join(s.dir, "cri.sock")); err != nil {
		return nil, err
	}
	go func() {
		defer close(s.played)
		if !o.Empty {
			s.played <- workload.Run(ctx, s.runtime, o.Workload)
		}
	}()
	return s, nil
}

// Endpoint is what a CRI client wants: unix:// and the path of the socket.
func (s *Stage) Endpoint() string { return s.server.Endpoint() }

// CgroupRoot is the directory that stands for the mount point of the cgroup
// hierarchy.
func (s *Stage) CgroupRoot() string { return s.tree.Root() }

// Runtime is the runtime, to be closed by Close only.
func (s *Stage) Runtime() *embedded.Runtime { return s.runtime }

// Close ends the play and takes everything down; no goroutine, socket or file is
// left. The error is the play's, or says what could not be removed. Close must be
// called once.
func (s *Stage) Close() error {
	s.stop()
	var errs []error
	if s.server != nil {
		errs = append(errs, s.server.Close())
	}
	if s.runtime != nil {
		errs = append(errs, s.runtime.Close())
	}
	errs = append(errs, <-s.played)
	if s.tree != nil {
		errs = append(errs, s.tree.Close())
	}
	if s.dir != "" {
		errs = append(errs, os.RemoveAll(s.dir))
	}
	return errors.Join(errs...)
}
