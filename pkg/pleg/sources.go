package pleg

import (
	"slices"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/trigger"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/trigger/cgroup"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/trigger/cri"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/trigger/ebpf"
)

// buildSources makes the sources asked for. alive is the cgroup source's word on
// whether a container still runs; nil without that source.
func (g *Generator) buildSources() (sources []trigger.Source, alive func(string) (bool, bool)) {
	given := func(name trigger.SourceName) bool {
		return slices.ContainsFunc(g.opts.Sources, func(s trigger.Source) bool { return s.Name() == name })
	}
	for _, name := range g.opts.Triggers {
		if given(name) {
			continue
		}
		switch name {
		case trigger.SourceCgroup:
			src := cgroup.New(cgroup.Options{Root: g.opts.CgroupRoot, Log: g.opts.Log})
			sources, alive = append(sources, src), src.Alive
		case trigger.SourceEBPF:
			sources = append(sources, ebpf.New(ebpf.Options{Log: g.opts.Log}))
		case trigger.SourceCRI:
			sources = append(sources, cri.New(g.opts.Runtime))
		}
	}
	return append(sources, g.opts.Sources...), alive
}
