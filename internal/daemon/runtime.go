package daemon

import (
	"context"
	"fmt"
	"slices"

	"github.com/hybrid-pleg/hybrid-pleg/internal/embedded/stage"
	"github.com/hybrid-pleg/hybrid-pleg/internal/version"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/trigger"
)

// startRuntime starts the embedded runtime if no other was chosen, and points
// the settings at it.
func (s *settings) startRuntime(ctx context.Context) (stop func(), err error) {
	if s.choice.Endpoint != "" {
		return func() {}, nil
	}
	st, err := stage.Start(ctx, stage.Options{Version: version.Number(), Logger: s.log})
	if err != nil {
		return nil, fmt.Errorf("embedded runtime: %w", err)
	}
	s.log.Info("using the embedded runtime: its pods exist only in this program", "why", s.choice.Why, "endpoint", st.Endpoint())
	s.choice.Endpoint = st.Endpoint()
	if s.CgroupRoot == "" {
		s.CgroupRoot = st.CgroupRoot()
	}
	if len(s.triggers) > 1 && slices.Contains(s.triggers, trigger.SourceEBPF) {
		s.triggers = slices.DeleteFunc(s.triggers, func(n trigger.SourceName) bool { return n == trigger.SourceEBPF })
		s.log.Info("doing without ebpf: the embedded runtime's containers are no processes that it could see")
	}
	return func() {
		if err := st.Close(); err != nil {
			s.log.Error("the embedded runtime did not end cleanly", "err", err)
		}
	}, nil
}
