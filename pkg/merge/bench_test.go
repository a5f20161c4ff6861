package merge

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/relist"
)

// benchChanges makes the changes of n containers as relist shares them: one
// Container, Sandbox and set of strings for all changes of a container.
func benchChanges(n, perPod int, types ...event.Type) [][]relist.Change {
	all := make([][]relist.Change, 0, n*len(types))
	var pod event.Pod
	var sandbox *event.Sandbox
	for i := range n {
		if i%perPod == 0 {
			uid := fmt.Sprintf("00000000-0000-0000-0000-%012x", i)
			pod = event.Pod{UID: uid, Namespace: "default", Name: "pod-" + uid}
			sandbox = &event.Sandbox{ID: fmt.Sprintf("5%063x", i)}
			all = append(all, []relist.Change{{Type: event.SandboxStarted, Pod: pod, Sandbox: sandbox, CreatedAt: time.Unix(1, 0)}})
		}
		container := &event.Container{ID: fmt.Sprintf("c%063x", i), Name: "main", Image: "registry.example/image:1"}
		status := &event.Status{StartedAt: time.Unix(1, 0), Pid: i}
		for _, typ := range types {
			all = append(all, []relist.Change{{Type: typ, Pod: pod, Sandbox: sandbox, Container: container,
				CreatedAt: time.Unix(1, 0), From: event.StateCreated, To: event.StateRunning, Status: status}})
		}
	}
	return all
}

// BenchmarkLaw is one change of one of 10,000 containers: told or suppressed, but
// known already.
func BenchmarkLaw(b *testing.B) {
	for _, typ := range []event.Type{event.ContainerStarted, event.PodSync, ""} {
		name := string(typ)
		if typ == "" {
			name = "no type"
		}
		b.Run(name, func(b *testing.B) {
			m := newModel(DefaultRemoved)
			for _, changes := range benchChanges(10_000, 2, event.ContainerStarted) {
				m.apply(&changes[0])
			}
			again := benchChanges(10_000, 2, typ)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				m.apply(&again[i%len(again)][0])
			}
		})
	}
}

// BenchmarkLawLife is all four changes of a container's life and one of its pod's
// sandbox, which comes first and stays.
func BenchmarkLawLife(b *testing.B) {
	m := newModel(DefaultRemoved)
	changes := benchChanges(1, 1, event.ContainerCreated, event.ContainerStarted, event.ContainerDied, event.ContainerRemoved)
	m.apply(&changes[0][0])
	ids := make([]event.Container, 1<<16)
	for i := range ids {
		ids[i].ID = fmt.Sprintf("c%063x", i)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		for _, c := range changes[1:] {
			c[0].Container = &ids[i%len(ids)]
			m.apply(&c[0])
		}
	}
}

func BenchmarkPublish(b *testing.B) {
	l := newLog(b, Options{})
	for _, changes := range benchChanges(5000, 2, event.ContainerStarted) {
		l.Publish(changes)
	}
	again := slices.DeleteFunc(benchChanges(5000, 2, event.PodSync), func(c []relist.Change) bool { return c[0].Container == nil })
	started := benchChanges(5000, 2, event.ContainerStarted)
	for _, row := range []struct {
		name    string
		changes [][]relist.Change
	}{{"told", again}, {"suppressed", started}} {
		b.Run(row.name, func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				l.Publish(row.changes[i%len(row.changes)])
			}
		})
	}
}

// BenchmarkFanOut publishes one event at a time and waits until every watcher
// has it. publish-ns is the publisher's own part.
func BenchmarkFanOut(b *testing.B) {
	for _, n := range []int{1, 10, 100, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			l := newLog(b, Options{})
			sync1 := []relist.Change{change(event.PodSync, "c")}
			var pending atomic.Int64
			var got sync.WaitGroup
			all := make(chan struct{}, 1)
			for range n {
				w := watch(b, l, WatchOptions{Since: l.Token()})
				got.Go(func() {
					for item, err := range w.All(context.Background()) {
						if err != nil {
							return
						}
						if item.Kind == ItemEvent && pending.Add(-1) == 0 {
							all <- struct{}{}
						}
					}
				})
			}
			var publishing time.Duration
			b.ReportAllocs()
			for b.Loop() {
				pending.Store(int64(n))
				begin := time.Now()
				l.Publish(sync1)
				publishing += time.Since(begin)
				<-all
			}
			b.ReportMetric(float64(publishing.Nanoseconds())/float64(b.N), "publish-ns/op")
			l.Close()
			got.Wait()
		})
	}
}

func BenchmarkNext(b *testing.B) {
	l := newLog(b, Options{})
	for range DefaultJournalEvents {
		l.Publish([]relist.Change{change(event.PodSync, "c")})
	}
	start := Token{l.epochs.name, 0}
	w := watch(b, l, WatchOptions{Since: start})
	b.ReportAllocs()
	for b.Loop() {
		if w.Lag() == 0 {
			w = watch(b, l, WatchOptions{Since: start})
		}
		if _, err := w.Next(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSnapshot(b *testing.B) {
	l := newLog(b, Options{})
	for _, changes := range benchChanges(10_000, 2, event.ContainerStarted) {
		l.Publish(changes)
	}
	b.Run("locked", func(b *testing.B) { // the part that publishing waits for
		x := newExtract(5000, 15_000)
		b.ReportAllocs()
		for b.Loop() {
			x = extract{x.names[:0], x.ends[:0], x.items[:0]}
			x.fill(&l.model)
		}
	})
	b.Run("all", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			l.version++ // else it is shared
			l.Snapshot()
		}
	})
}

// BenchmarkMemory prints what the law and the model hold for each live container,
// its share of the pod and of the sandbox included, and what the journal holds.
func BenchmarkMemory(b *testing.B) {
	heap := func() float64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc)
	}
	for _, perPod := range []int{1, 2, 4} {
		b.Run(fmt.Sprintf("%d-a-pod", perPod), func(b *testing.B) {
			const containers = 10_000
			changes := benchChanges(containers, perPod, event.ContainerCreated, event.ContainerStarted)
			var bytes float64
			for b.Loop() {
				before := heap()
				m := newModel(DefaultRemoved)
				for _, c := range changes {
					m.apply(&c[0])
				}
				bytes = heap() - before
				runtime.KeepAlive(m)
			}
			runtime.KeepAlive(changes)
			b.ReportMetric(bytes/containers, "B/container")
		})
	}
	b.Run("journal-full", func(b *testing.B) {
		changes := benchChanges(DefaultJournalEvents, 2, event.ContainerStarted)
		var bytes float64
		var l *Log
		for b.Loop() {
			before := heap()
			l = newLog(b, Options{})
			for _, c := range changes {
				l.Publish(c)
			}
			l.model = newModel(0)
			bytes = heap() - before
		}
		b.ReportMetric(bytes/DefaultJournalEvents, "B/event")
		b.ReportMetric(float64(l.Stats().JournalBytes)/DefaultJournalEvents, "counted-B/event")
		runtime.KeepAlive(changes)
	})
}
