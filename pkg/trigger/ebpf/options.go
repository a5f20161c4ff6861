package ebpf

import "log/slog"

// Options configure a [Source]. The zero value works.
type Options struct {
	// Log gets a line when the probe is attached, and one for what keeps running containers
	// from being taken over. Nil is none.
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
