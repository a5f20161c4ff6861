package ebpf

import "github.com/hybrid-pleg/hybrid-pleg/pkg/trigger"

// Source is the eBPF source of signals. Its methods may be called from any
// goroutine, Run by one at a time.
type Source struct {
	opts Options
}

var _ trigger.Source = (*Source)(nil)

// New makes a source; the kernel is not asked before Run.
func New(opts Options) *Source { return &Source{opts: opts} }

// Name returns [trigger.SourceEBPF].
func (*Source) Name() trigger.SourceName { return trigger.SourceEBPF }
