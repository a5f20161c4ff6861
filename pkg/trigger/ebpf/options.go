package ebpf

import (
	"log/slog"
	"sync/atomic"
)

// Options configure a [Source]. The zero value works.
type Options struct {
	// Log gets a line when the probe is attached. Nil is none.
	Log *slog.Logger
	// RingSize is the size of the kernel's ring buffer in bytes, a power of two and a
	// multiple of the page size. 0 is 1 MiB, about 780 records that wait to be read.
	RingSize uint32
}

func (o Options) logger() *slog.Logger {
	if o.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return o.Log
}

// Stats counts what came from the kernel, over all calls of Run.
type Stats struct {
	// Started, Exited and Empty are the records of each kind.
	Started, Exited, Empty uint64
	// Ignored are records of cgroups that only look like a container's to the kernel. They
	// are part of the counts above.
	Ignored uint64
	// Lost are records that found the ring buffer full.
	Lost uint64
	// Seeded are containers found running when Run started.
	Seeded uint64
}

type counters struct {
	started, exited, empty, ignored, lost, seeded atomic.Uint64
}

func (c *counters) stats() Stats {
	return Stats{
		Started: c.started.Load(),
		Exited:  c.exited.Load(),
		Empty:   c.empty.Load(),
		Ignored: c.ignored.Load(),
		Lost:    c.lost.Load(),
		Seeded:  c.seeded.Load(),
	}
}
