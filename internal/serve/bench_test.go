package serve

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	hybridplegv1 "github.com/hybrid-pleg/hybrid-pleg/api/hybridpleg/v1"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/merge"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/relist"
	"google.golang.org/grpc"
)

// BenchmarkPublishToReceive measures the time from the publication of an event to its
// arrival, decoded, at watchers that each have a connection over gRPC: p50 and p99
// over all watchers and events. One event is on its way at a time, as on a node.
// With slow=1, one more watcher reads nothing at all: the others are not to notice.
func BenchmarkPublishToReceive(b *testing.B) {
	for _, watchers := range []int{1, 10, 100, 1000} {
		for _, slow := range []int{0, 1} {
			if slow == 1 && watchers != 10 {
				continue
			}
			b.Run(fmt.Sprintf("watchers=%d/slow=%d", watchers, slow), func(b *testing.B) { publishToReceive(b, watchers, slow) })
		}
	}
}

// receiver is a watcher that takes the time.
type receiver struct {
	stream grpc.ServerStreamingClient[hybridplegv1.WatchResponse]
	took   []time.Duration
	// received is told of each event, by all receivers.
	received func()
}

func (r *receiver) run() {
	for {
		m, err := r.stream.Recv()
		if err != nil {
			return // the benchmark is over
		}
		if e := m.GetEvent(); e != nil {
			r.took = append(r.took, time.Since(e.GetTime().AsTime()))
			r.received()
		}
	}
}

func publishToReceive(b *testing.B, watchers, slow int) {
	back := newBackend(b, merge.Options{})
	back.pods(10)
	r := start(b, back, Options{Limits: Limits{Watchers: 2 * watchers}}, nil)
	var (
		missing atomic.Int64
		all     = make(chan struct{}, 1)
		readers sync.WaitGroup
		timed   []*receiver
	)
	received := func() {
		if missing.Add(-1) == 0 {
			all <- struct{}{}
		}
	}
	for range watchers {
		stream, err := r.dial().Watch(b.Context(), &hybridplegv1.WatchRequest{})
		if err != nil {
			b.Fatal(err)
		}
		for synced := false; !synced; {
			m, err := stream.Recv()
			if err != nil {
				b.Fatal(err)
			}
			synced = m.GetSynced() != nil
		}
		rec := &receiver{stream: stream, took: make([]time.Duration, 0, b.N), received: received}
		timed = append(timed, rec)
		readers.Go(rec.run)
	}
	for range slow {
		if _, err := r.dial().Watch(b.Context(), &hybridplegv1.WatchRequest{}); err != nil {
			b.Fatal(err)
		}
		eventually(b, "the slow watcher", func() bool { return r.watches.count() == watchers+slow })
	}
	b.ReportAllocs()
	b.ResetTimer()
	for n := range b.N {
		missing.Store(int64(watchers))
		to := []event.State{event.StateCreated, event.StateRunning, event.StateExited, event.StateNonExistent}[n%4]
		back.Publish([]relist.Change{change(0, fmt.Sprintf("%064d", n/4), to)})
		<-all
	}
	b.StopTimer()
	r.end()
	readers.Wait()
	var took []time.Duration
	for _, rec := range timed {
		took = append(took, rec.took...)
	}
	slices.Sort(took)
	quantile := func(q float64) float64 { return float64(took[int(q*float64(len(took)-1))].Nanoseconds()) / 1e3 }
	b.ReportMetric(quantile(0.5), "p50-µs")
	b.ReportMetric(quantile(0.99), "p99-µs")
}

// BenchmarkEncode is what an event costs once, and what it costs each further watcher.
func BenchmarkEncode(b *testing.B) {
	back := newBackend(b, merge.Options{})
	back.pods(10)
	c := change(0, fmt.Sprintf("%064d", 1), event.StateExited)
	c.Sandbox.Annotations = map[string]string{"kubernetes.io/config.seen": "2026-12-01T11:38:07.547515628Z", "kubernetes.io/config.source": "api"}
	e := &back.Publish([]relist.Change{c})[0]
	for name, encode := range map[string]func(*cache) ([]byte, error){
		"proto": func(c *cache) ([]byte, error) { return c.proto(e) },
		"json":  func(c *cache) ([]byte, error) { return c.json(e) },
	} {
		b.Run(name+"/first", func(b *testing.B) {
			b.ReportAllocs()
			var c cache
			for range b.N {
				c.slots[e.Sequence%cachedEvents].Store(nil)
				if _, err := encode(&c); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(name+"/further", func(b *testing.B) {
			b.ReportAllocs()
			var c cache
			for range b.N {
				if _, err := encode(&c); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
