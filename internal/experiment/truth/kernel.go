package truth

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/bpf"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/trigger"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/trigger/ebpf"
)

// Kernel is a probe that records exec and exit of containers' workloads.
type Kernel struct {
	probe   *bpf.Probe
	ledger  *Ledger
	reading sync.WaitGroup
	closing atomic.Bool
	err     error // why reading ended, when closing was not why
}

// kernelRing holds some 12,000 records that wait to be read: the recorder shares the
// processors with what it watches, and must lose nothing.
const kernelRing = 16 << 20

// readWait is how long a read waits at most.
const readWait = time.Second

// StartKernel attaches a probe that writes into the ledger until Close. The error says
// what is missing, such as a privilege.
func StartKernel(ledger *Ledger) (*Kernel, error) {
	probe, err := ebpf.Attach(kernelRing)
	if err != nil {
		return nil, err
	}
	k := &Kernel{probe: probe, ledger: ledger}
	k.reading.Go(k.read)
	return k, nil
}

func (k *Kernel) read() {
	var rec bpf.Record
	for {
		err := k.probe.Read(&rec, readWait)
		switch {
		case err == nil:
			k.note(&rec)
		case errors.Is(err, bpf.ErrInterrupted):
			// What was in the ring before has been read.
			if k.closing.Load() {
				return
			}
		case !errors.Is(err, os.ErrDeadlineExceeded):
			k.err = fmt.Errorf("the recorder of exec and exit: %w", err)
			return
		}
	}
}

func (k *Kernel) note(rec *bpf.Record) {
	ref, ok := trigger.ParseCgroupPath(rec.Path)
	if !ok || ref.ContainerID == "" {
		return
	}
	at := int64(rec.Ktime)
	switch rec.Kind {
	case bpf.KindStarted:
		k.ledger.Note(ref.ContainerID, Began, at)
	case bpf.KindExited:
		k.ledger.Note(ref.ContainerID, Ended, at)
	case bpf.KindEmpty:
		k.ledger.NoteEmpty(ref.ContainerID, at)
	}
}

// Lost is how many records found no room, -1 when that can't be known.
func (k *Kernel) Lost() int64 {
	n, err := k.probe.Lost()
	if err != nil {
		return -1
	}
	return int64(n)
}

// Close writes down what is still in the ring, ends the recording and takes the probe
// out of the kernel. The error may also be why recording ended earlier.
func (k *Kernel) Close() error {
	k.closing.Store(true)
	err := k.probe.Interrupt()
	k.reading.Wait()
	return errors.Join(err, k.err, k.probe.Close())
}
