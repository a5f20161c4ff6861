//go:build !linux

package bpf

import (
	"fmt"
	"runtime"
	"time"
)

// Probe does not exist on this system.
type Probe struct{}

// Load fails.
func Load(Options) (*Probe, error) {
	return nil, fmt.Errorf("%w: it needs Linux, this is %s", ErrUnsupported, runtime.GOOS)
}

// Attach fails.
func (*Probe) Attach() error { return ErrUnsupported }

// Remember fails.
func (*Probe) Remember(Cgroup, uint32) (bool, error) { return false, ErrUnsupported }

// Forget fails.
func (*Probe) Forget(Cgroup) error { return ErrUnsupported }

// Read fails.
func (*Probe) Read(*Record, time.Duration) error { return ErrUnsupported }

// Interrupt fails.
func (*Probe) Interrupt() error { return ErrUnsupported }

// Pending reports false.
func (*Probe) Pending() bool { return false }

// Lost fails.
func (*Probe) Lost() (uint64, error) { return 0, ErrUnsupported }

// Close does nothing.
func (*Probe) Close() error { return nil }
