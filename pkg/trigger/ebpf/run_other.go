//go:build !linux

package ebpf

import (
	"context"
	"fmt"

	"github.com/hybrid-pleg/hybrid-pleg/bpf"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/trigger"
)

// Probe reports that the source can't run on this system.
func Probe() error {
	_, err := bpf.Load(bpf.Options{})
	return fmt.Errorf("%w: %w", trigger.ErrUnsupported, err)
}

// Attach fails as Probe does.
func Attach(uint32) (*bpf.Probe, error) { return nil, Probe() }

// Run returns what Probe does.
func (*Source) Run(context.Context, trigger.Sink) error { return Probe() }
