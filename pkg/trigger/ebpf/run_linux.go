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

// Probe reports whether this process could run the source on this host: it loads the
// probe into the kernel, attaches it, and takes it out again, which takes a fraction of a
// second. The error is the one with which Run would end at once.
func Probe() error {
	_, probe, err := attach(0)
	if err != nil {
		return err
	}
	return probe.Close()
}

// Run attaches the probe, takes over what runs already, and then turns the kernel's
// records into signals.
func (s *Source) Run(ctx context.Context, sink trigger.Sink) (err error) {
	// First attach, then look what runs: what starts or ends in between is in the ring.
	where, probe, err := attach(s.opts.RingSize)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, probe.Close()) }()
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

// read hands over records as signals until ctx ends.
func (s *Source) read(ctx context.Context, probe *bpf.Probe, sink trigger.Sink) error {
	var rec bpf.Record
	var lost lossCheck
	for {
		err := probe.Read(&rec, idleCheck)
		if ctx.Err() != nil {
			return nil
		}
		if err == nil {
			if signal, ok := toSignal(&rec, fromKtime(rec.Ktime)); ok {
				sink.Signal(signal)
			}
		} else if !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
		if !lost.due(time.Now(), probe.Pending()) {
			continue
		}
		count, err := probe.Lost()
		if err != nil {
			return err
		}
		if lost.grew(count) {
			sink.Signal(trigger.Signal{Source: trigger.SourceEBPF, Kind: trigger.KindLost, At: time.Now()})
		}
	}
}

// Attach puts a probe into the kernel that looks where the source would, and hands it
// over, for who wants the kernel's own records and time stamps: to check others
// against, say. ringSize is as in [Options]. The caller closes the probe.
func Attach(ringSize uint32) (*bpf.Probe, error) {
	_, probe, err := attach(ringSize)
	return probe, err
}

// attach loads the probe and switches it on.
func attach(ringSize uint32) (places, *bpf.Probe, error) {
	where, err := findPlaces("/proc")
	if err != nil {
		return places{}, nil, err
	}
	probe, err := bpf.Load(where.options(ringSize))
	if err != nil {
		return places{}, nil, unsupported(err)
	}
	if err := probe.Attach(); err != nil {
		return places{}, nil, errors.Join(unsupported(err), probe.Close())
	}
	return where, probe, nil
}

// unsupported turns the mark of the package bpf into the one that callers of a source
// know.
func unsupported(err error) error {
	if errors.Is(err, bpf.ErrUnsupported) {
		return fmt.Errorf("%w: %w", trigger.ErrUnsupported, err)
	}
	return err
}
