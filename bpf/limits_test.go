//go:build linux

package bpf

import (
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/bpf/bpftest"
)

func manyExecsInside(b *bench) {
	execs := 1_000
	if testing.Short() {
		execs = 100
	}
	c := b.tree.Container(b)
	p := c.Start(b)
	b.want(KindStarted, c, p.PID)
	p.Do(b, fmt.Sprint("run ", execs))
	b.wantNothing()
	p.Quit(b)
	b.want(KindExited, c, p.PID)
}

func TestOverflowIsCounted(t *testing.T) {
	b := newBench(t, bpftest.V2, Options{RingSize: uint32(os.Getpagesize())})
	for range os.Getpagesize() / 1024 {
		b.tree.Container(t).Start(t)
	}
	lost, err := b.probe.Lost()
	if err != nil || lost == 0 {
		t.Fatalf("%d records lost, %v; the ring holds less than was told", lost, err)
	}
	for b.probe.Pending() {
		var rec Record
		if err := b.probe.Read(&rec, time.Second); err != nil {
			t.Fatal(err)
		}
	}
	b.wantNothing() // it goes on
}

func TestRemember(t *testing.T) {
	hierarchies(t, func(b *bench) {
		c := b.tree.Container(b)
		p := c.Init(b)
		b.attach()
		key := b.key(c)
		added, err := b.probe.Remember(key, uint32(p.PID))
		if err != nil || !added {
			b.Fatal(added, err)
		}
		if added, err := b.probe.Remember(key, 1); err != nil || added {
			b.Fatal("taken over twice", err)
		}
		b.wantNothing()
		p.Do(b, "run 1")
		b.wantNothing()
		// It may have been a `runc init` that waited for the start.
		p.Do(b, "exec")
		b.want(KindStarted, c, p.PID)
		p.Do(b, "exec")
		b.wantNothing()
		p.Quit(b)
		b.want(KindExited, c, p.PID)
		b.wantNothing()

		if err := b.probe.Forget(key); err != nil {
			b.Error("forget what is gone:", err)
		}

		// One that the probe saw from its beginning needs no help.
		young := b.tree.Container(b)
		q := young.Init(b)
		if added, err := b.probe.Remember(b.key(young), uint32(q.PID)); err != nil || added {
			b.Fatal("a young container was taken over", err)
		}
		q.Do(b, "exec")
		b.want(KindStarted, young, q.PID)
		q.Quit(b)
		b.want(KindExited, young, q.PID)
	})
}

func moreContainersThanTheMapHolds(b *bench) {
	for i := range uint64(3 * b.probe.objects.Workloads.MaxEntries() / 2) {
		if _, err := b.probe.Remember(Cgroup{ID: 1<<60 + i}, 1<<30); err != nil {
			b.Fatal(err)
		}
	}
	b.wantNothing()
}

func interrupt(b *bench) {
	read := make(chan error)
	go func() {
		var rec Record
		err := b.probe.Read(&rec, time.Minute)
		for err == nil {
			err = b.probe.Read(&rec, time.Minute)
		}
		read <- err
	}()
	if err := b.probe.Interrupt(); err != nil {
		b.Fatal(err)
	}
	if err := <-read; !errors.Is(err, ErrInterrupted) {
		b.Errorf("got %v", err)
	}
	var rec Record
	if err := b.probe.Read(&rec, time.Nanosecond); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		b.Errorf("got %v", err)
	}
}

func TestNoDescriptorIsLeft(t *testing.T) {
	newBench(t, bpftest.V2, Options{}) // skips where there is no probe; opens what stays open
	count := func() int {
		fds, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(fds)
	}
	before := count()
	loads := 5
	if testing.Short() {
		loads = 1
	}
	for range loads {
		p, err := Load(Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(p.Attach(), p.Close()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Load(Options{RingSize: 5}); err == nil {
		t.Error("a ring of 5 bytes")
	}
	if after := count(); after != before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}
