package bpf

import (
	"errors"
	"time"
)

// Options say where the probe looks. The zero value looks in cgroup v2.
type Options struct {
	// V1 is a v1 hierarchy to look in for processes that are in no container in v2. The
	// zero value is none.
	V1 V1Hierarchy
	// WithoutV2 leaves v2 out, for hosts that don't use it. It needs V1.
	WithoutV2 bool
	// RingSize is the size of the ring buffer in bytes, a power of two and a multiple of
	// the page size. 0 is 1 MiB: about 780 records that wait to be read.
	RingSize uint32

	// sameEnd is that of probe.c; 0 leaves it at a second.
	sameEnd time.Duration
}

// V1Hierarchy is a cgroup v1 hierarchy with a controller.
type V1Hierarchy struct {
	// Controller is the controller's name as in /proc/cgroups.
	Controller string
	// ID is the number of the hierarchy in /proc/cgroups, which is never 0.
	ID uint32
}

var (
	// ErrUnsupported marks an error that will last: this kernel can't run the
	// probe, or this process must not.
	ErrUnsupported = errors.New("the eBPF probe can't run here")
	// ErrInterrupted is returned by Read after [Probe.Interrupt].
	ErrInterrupted = errors.New("interrupted")
)
