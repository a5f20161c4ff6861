//go:build linux

package bpf

import (
	"fmt"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/hybrid-pleg/hybrid-pleg/bpf/bpftest"
)

// BenchmarkExec compares a fork, exec and exit inside a container with and without the
// probe, in turns. The two ns/… metrics are the kernel's own account of the programs, which
// includes some 20 ns for taking it.
func BenchmarkExec(b *testing.B) {
	const block = 200
	tree := bpftest.NewTree(b, bpftest.V2)
	probe, err := Load(Options{})
	if err != nil {
		b.Skip(err)
	}
	defer func() {
		if err := probe.Close(); err != nil {
			b.Error(err)
		}
	}()
	stats, err := ebpf.EnableStats(uint32(unix.BPF_STATS_RUN_TIME))
	if err != nil {
		b.Fatal(err)
	}
	defer stats.Close()
	p := tree.Container(b).Start(b)

	run := func() time.Duration {
		began := time.Now()
		p.Do(b, fmt.Sprint("run ", block))
		return time.Since(began)
	}
	var with, without time.Duration
	for b.Loop() {
		without += run()
		if err := probe.Attach(); err != nil {
			b.Fatal(err)
		}
		with += run()
		for _, l := range probe.links {
			if err := l.Close(); err != nil {
				b.Fatal(err)
			}
		}
		probe.links = nil
	}
	perOp := func(d time.Duration) float64 { return float64(d.Microseconds()) / float64(block*b.N) }
	b.ReportMetric(perOp(without), "µs/without")
	b.ReportMetric(perOp(with), "µs/with")
	b.ReportMetric(float64(with)/float64(without), "ratio")
	for name, prog := range map[string]*ebpf.Program{"exec": probe.objects.OnExec, "exit": probe.objects.OnExit} {
		s, err := prog.Stats()
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(s.Runtime.Nanoseconds())/float64(s.RunCount), "ns/"+name)
	}
}
