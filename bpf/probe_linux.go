package bpf

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/ringbuf"
	"github.com/cilium/ebpf/rlimit"
)

// Probe is the probe in the kernel. It lasts until Close, or until the process ends.
// Read must be called by one goroutine at a time; the other methods may be called
// from any, Close after all others.
type Probe struct {
	objects probeObjects
	reader  *ringbuf.Reader
	// A link that is collected detaches without a word.
	links []link.Link
	raw   ringbuf.Record
}

// Load brings the probe into the kernel; it is silent until Attach. The error wraps
// [ErrUnsupported] when trying again would be of no use, and says what is missing.
func Load(opts Options) (*Probe, error) {
	// Up to 5.10 maps count as locked memory; later kernels make this a no-op. A failure
	// shows in what follows.
	memlock := rlimit.RemoveMemlock()
	spec, err := newSpec(opts)
	if err != nil {
		return nil, err
	}
	p := &Probe{}
	if err := spec.LoadAndAssign(&p.objects, nil); err != nil {
		return nil, explain(fmt.Errorf("load the eBPF probe: %w", errors.Join(err, memlock)))
	}
	if p.reader, err = ringbuf.NewReader(p.objects.Records); err != nil {
		return nil, errors.Join(fmt.Errorf("open the probe's ring buffer: %w", err), p.objects.Close())
	}
	return p, nil
}

func newSpec(opts Options) (*ebpf.CollectionSpec, error) {
	spec, err := loadProbe()
	if err != nil {
		return nil, err
	}
	subsys := int32(-1)
	if opts.V1 != (V1Hierarchy{}) {
		if opts.V1.ID == 0 {
			return nil, fmt.Errorf("cgroup v1 controller %q with hierarchy 0, which is v2", opts.V1.Controller)
		}
		if subsys, err = subsysIndex(opts.V1.Controller); err != nil {
			return nil, explain(err)
		}
	} else if opts.WithoutV2 {
		return nil, errors.New("neither a v1 hierarchy nor v2 to look in")
	}
	err = errors.Join(
		spec.Variables[probeVarUseV2].Set(!opts.WithoutV2),
		spec.Variables[probeVarV1Subsys].Set(subsys),
		spec.Variables[probeVarV1Hierarchy].Set(opts.V1.ID),
	)
	if opts.sameEnd != 0 {
		err = errors.Join(err, spec.Variables[probeVarSameEnd].Set(uint64(opts.sameEnd)))
	}
	if opts.RingSize != 0 {
		spec.Maps[probeMapRecords].MaxEntries = opts.RingSize
	}
	return spec, err
}

// subsysIndex finds a v1 controller's place in css_set.subsys, which depends on what
// the kernel was built with.
func subsysIndex(controller string) (int32, error) {
	kernel, err := btf.LoadKernelSpec()
	if err != nil {
		return 0, err
	}
	var ids *btf.Enum
	if err := kernel.TypeByName("cgroup_subsys_id", &ids); err != nil {
		return 0, err
	}
	if controller == "blkio" {
		controller = "io" // the only one whose old name is not the kernel's
	}
	for _, v := range ids.Values {
		if v.Name == controller+"_cgrp_id" {
			return int32(v.Value), nil
		}
	}
	return 0, fmt.Errorf("this kernel has no cgroup controller %q", controller)
}

// Attach switches the probe on. From its return on no start or end is missed; what
// runs already is told by [Probe.Remember].
func (p *Probe) Attach() error {
	// The end first: the end of a workload whose start was seen is then seen too. A container
	// counts as seen from its beginning once OnPopulated is there, so that no exec in it
	// may go unseen after that: the next would pass for its workload.
	for _, prog := range []*ebpf.Program{p.objects.OnExit, p.objects.OnExec, p.objects.OnPopulated} {
		l, err := link.AttachTracing(link.TracingOptions{Program: prog})
		if err != nil {
			return explain(fmt.Errorf("attach %v: %w", prog, err))
		}
		p.links = append(p.links, l)
	}
	return nil
}

// Remember makes the process tgid, in numbers of the host's PID namespace, the workload of
// a container that was running before Attach, so that its end is told at once, and its start
// should it exec once more, as `runc init` does. It reports false when the probe knew the
// container already, as it does each that got its first process after Attach. Of a
// container that is in neither way known, KindEmpty is all that is told.
func (p *Probe) Remember(cgroup Cgroup, tgid uint32) (bool, error) {
	err := p.objects.Workloads.Update(cgroup.key(), &probeWorkload{Tgid: tgid, State: probeStateSTATE_SEEDED}, ebpf.UpdateNoExist)
	if errors.Is(err, ebpf.ErrKeyExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("remember the workload of cgroup %d: %w", cgroup.ID, err)
	}
	return true, nil
}

// Forget undoes Remember, when the process turns out to have ended meanwhile. A
// cgroup the probe does not know is no error.
func (p *Probe) Forget(cgroup Cgroup) error {
	if err := p.objects.Workloads.Delete(cgroup.key()); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("forget the workload of cgroup %d: %w", cgroup.ID, err)
	}
	return nil
}

func (c Cgroup) key() *probeCgroupKey {
	return &probeCgroupKey{Id: c.ID, Hierarchy: c.Hierarchy}
}

// Read waits for the next record and stores it in rec. After wait without one it returns
// [os.ErrDeadlineExceeded], after [Probe.Interrupt] and once all earlier records are
// read [ErrInterrupted].
func (p *Probe) Read(rec *Record, wait time.Duration) error {
	p.reader.SetDeadline(time.Now().Add(wait))
	err := p.reader.ReadInto(&p.raw)
	switch {
	case err == nil:
		return rec.decode(p.raw.RawSample)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return err
	case errors.Is(err, ringbuf.ErrFlushed):
		return ErrInterrupted
	default:
		return fmt.Errorf("read the probe's ring buffer: %w", err)
	}
}

// Interrupt ends the Read which is waiting, or else the next.
func (p *Probe) Interrupt() error { return p.reader.Flush() }

// Pending reports whether records wait to be read.
func (p *Probe) Pending() bool { return p.reader.AvailableBytes() > 0 }

// Lost returns how many records found no room in the ring buffer so far. It is cheap: the
// counter is shared memory.
func (p *Probe) Lost() (uint64, error) {
	var n uint64
	if err := p.objects.Lost.Get(&n); err != nil {
		return 0, fmt.Errorf("read the probe's count of lost records: %w", err)
	}
	return n, nil
}

// Close detaches the probe and takes it out of the kernel.
func (p *Probe) Close() error {
	var errs []error
	for _, l := range p.links {
		errs = append(errs, l.Close())
	}
	p.links = nil
	return errors.Join(append(errs, p.reader.Close(), p.objects.Close())...)
}
