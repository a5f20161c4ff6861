package pleg

import (
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/merge"
)

// RuntimeVersion is what a runtime calls itself.
type RuntimeVersion struct {
	Name, Version string
	// APIVersion is that of the CRI.
	APIVersion string
}

// RuntimeVersion returns what the runtime at [Options].Endpoint called itself when the
// generator connected. It is zero before, and with a Runtime that was given.
func (g *Generator) RuntimeVersion() RuntimeVersion {
	if g.client == nil {
		return RuntimeVersion{}
	}
	v := g.client.Version()
	return RuntimeVersion{
		Name: v.GetRuntimeName(), Version: v.GetRuntimeVersion(), APIVersion: v.GetRuntimeApiVersion(),
	}
}

// RelistPeriod returns the pause between relists of everything that now holds: that
// of the options, or the one for when the triggers do not prove themselves.
func (g *Generator) RelistPeriod() time.Duration { return time.Duration(g.period.Load()) }

// Stats returns the figures of the stream of events.
func (g *Generator) Stats() merge.Stats { return g.log.Stats() }
