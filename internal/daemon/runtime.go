package daemon

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/hybrid-pleg/hybrid-pleg/internal/embedded"
	"github.com/hybrid-pleg/hybrid-pleg/internal/embedded/cgrouptree"
	"github.com/hybrid-pleg/hybrid-pleg/internal/embedded/workload"
	"github.com/hybrid-pleg/hybrid-pleg/internal/version"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/trigger"
)

// startRuntime starts the embedded runtime if no other was chosen, and points
// the settings at it.
func (s *settings) startRuntime(ctx context.Context) (stop func(), err error) {
	if s.choice.Endpoint != "" {
		return func() {}, nil
	}
	tree, err := cgrouptree.New("")
	if err != nil {
		return nil, fmt.Errorf("embedded runtime: %w", err)
	}
	rt := embedded.New(embedded.Options{Mirror: tree, Version: version.Number(), Logger: s.log})
	server, err := embedded.Serve(ctx, rt, "")
	if err != nil {
		_ = rt.Close()
		_ = tree.Close()
		return nil, fmt.Errorf("embedded runtime: %w", err)
	}
	var wg sync.WaitGroup
	ctx, cancel := context.WithCancel(ctx)
	wg.Go(func() {
		if err := workload.Run(ctx, rt, workload.Options{}); err != nil && ctx.Err() == nil {
			s.log.Error("the embedded runtime's workload ended", "err", err)
		}
	})
	s.log.Info("using the embedded runtime: its pods exist only in this program", "why", s.choice.Why, "endpoint", server.Endpoint())
	s.choice.Endpoint = server.Endpoint()
	if s.CgroupRoot == "" {
		s.CgroupRoot = tree.Root()
	}
	if len(s.triggers) > 1 && slices.Contains(s.triggers, trigger.SourceEBPF) {
		s.triggers = slices.DeleteFunc(s.triggers, func(n trigger.SourceName) bool { return n == trigger.SourceEBPF })
		s.log.Info("doing without ebpf: the embedded runtime's containers are no processes that it could see")
	}
	return func() {
		cancel()
		wg.Wait()
		_ = server.Close()
		_ = rt.Close()
		_ = tree.Close()
	}, nil
}
