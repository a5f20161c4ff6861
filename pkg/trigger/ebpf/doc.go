// Package ebpf is the source of signals that asks the kernel itself: a probe tells when
// the workload of a container starts and when it ends, whichever runtime made it.
//
//	source := ebpf.New(ebpf.Options{Log: logger})
//	err := source.Run(ctx, sink)
//
// What counts as a container and as its workload is decided in the kernel (see the
// package bpf), so that the other processes of the host, and whatever a container starts
// once it runs, never come here. Containers that were running before are taken over
// when Run starts: their end is told, their start is not. Where that can't be done, as
// without the host's process IDs (hostPID) or its cgroups, their end is told when their
// cgroup empties, which is later than the end of the workload if children survive it; and a
// container that was only created when Run started has no start told.
//
// The source needs Linux 5.10 or later with BTF, and root or the capabilities CAP_BPF and
// CAP_PERFMON. Where that is missing, Run and [Probe] return an error that wraps
// [trigger.ErrUnsupported] and says what to do. It looks in cgroup v2 and, where the host
// uses it, in v1; on a hybrid host in both, because it is up to the runtime whether it
// enters v2 there.
//
// A record carries the path of its cgroup, so there is no table of containers here that
// could grow or miss one. Records that find the ring buffer full are counted in
// the kernel and become one [trigger.KindLost].
package ebpf
