// Package bpf is the kernel's side of the ebpf trigger: a probe that tells when the
// workload of a container starts and when it ends, and nothing of all the other
// processes of the host.
//
// The C source is in the folder c; probe.c says what counts as a workload and why.
// It needs no kprobes and no kernel headers: three BTF tracepoints, relocated (CO-RE) to
// the running kernel, from 5.10 on, in cgroup v2, v1 and both. The objects
// for little and big endian are checked in, generate.sh makes them anew.
//
//	p, err := bpf.Load(bpf.Options{})
//	if err != nil {
//		return err // says what is missing; ErrUnsupported if that will last
//	}
//	defer p.Close()
//	if err := p.Attach(); err != nil {
//		return err
//	}
//	var rec bpf.Record
//	for {
//		if err := p.Read(&rec, time.Minute); err != nil { … }
//		fmt.Println(rec.Kind, rec.Path)
//	}
//
// Elsewhere than on Linux the package holds the types alone, and Load fails.
package bpf
