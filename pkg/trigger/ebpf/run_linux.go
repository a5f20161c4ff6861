package ebpf

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/bpf"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/trigger"
)

// idleCheck is how long the count of lost records may go unread while no record comes:
// when the ring is full of what can't be read, no wake-up comes either.
const idleCheck = 5 * time.Second

// Probe reports whether this process could run the source on this host: it loads
// the probe into the kernel and takes it out again, which takes some 50 ms. The error
// is the one that Run would return.
func Probe() error {
	where, err := findPlaces("/proc")
	if err != nil {
		return err
	}
	probe, err := load(where.options(0))
	if err != nil {
		return err
	}
	return probe.Close()
}

// Run attaches the probe, takes over what runs already, and then turns the kernel's
// records into signals.
func (s *Source) Run(ctx context.Context, sink trigger.Sink) (err error) {
	where, err := findPlaces("/proc")
	if err != nil {
		return err
	}
	probe, err := load(where.options(s.opts.RingSize))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, probe.Close()) }()
	// First attach, then look what runs: what starts or ends in between is in the ring.
	if err := probe.Attach(); err != nil {
		return unsupported(err)
	}
	s.seed(ctx, probe, where, sink)
	sink.Up()

	interrupted := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(interrupted)
		// It fails only on a closed probe, and Close waits below.
		_ = probe.Interrupt()
	})
	defer func() {
		if !stop() {
			<-interrupted
		}
	}()
	return s.read(ctx, probe, sink)
}

// read hands over records until ctx ends.
func (s *Source) read(ctx context.Context, probe *bpf.Probe, sink trigger.Sink) error {
	var rec bpf.Record
	var lost uint64
	for {
		err := probe.Read(&rec, idleCheck)
		if ctx.Err() != nil {
			return nil
		}
		if err == nil {
			s.deliver(&rec, sink)
		} else if !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
		// Once a burst, not once a record of it: one signal says all.
		if probe.Pending() {
			continue
		}
		now, err := probe.Lost()
		if err != nil {
			return err
		}
		if now != lost {
			s.counters.lost.Add(now - lost)
			lost = now
			sink.Signal(trigger.Signal{Source: trigger.SourceEBPF, Kind: trigger.KindLost, At: time.Now()})
		}
	}
}

func (s *Source) deliver(rec *bpf.Record, sink trigger.Sink) {
	switch rec.Kind {
	case bpf.KindStarted:
		s.counters.started.Add(1)
	case bpf.KindExited:
		s.counters.exited.Add(1)
	case bpf.KindEmpty:
		s.counters.empty.Add(1)
	}
	signal, ok := toSignal(rec, fromKtime(rec.Ktime))
	if !ok {
		s.counters.ignored.Add(1)
		return
	}
	sink.Signal(signal)
}

func load(opts bpf.Options) (*bpf.Probe, error) {
	probe, err := bpf.Load(opts)
	return probe, unsupported(err)
}

// unsupported turns the mark of the package bpf into the one that callers of a source
// know.
func unsupported(err error) error {
	if errors.Is(err, bpf.ErrUnsupported) {
		return fmt.Errorf("%w: %w", trigger.ErrUnsupported, err)
	}
	return err
}
