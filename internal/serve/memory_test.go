package serve

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	hybridplegv1 "github.com/hybrid-pleg/hybrid-pleg/api/hybridpleg/v1"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/merge"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/relist"
)

// heap is how many bytes are in use, rubbish left out.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestMemory has a hundred clients that read nothing while far more happens than the
// journal holds. All that the process may take for it, the clients' own side
// included, is the journal, the encodings and what the transports have room for.
func TestMemory(t *testing.T) {
	const (
		clients, total = 100, 60_000
		journalBytes   = 2 << 20
		// Of a client: gRPC's window of 64 KiB, in which a message takes up to four times
		// its size on the client's side, and buffers.
		room = 512 << 10
	)
	b := newBackend(t, merge.Options{JournalBytes: journalBytes, Removed: 1000})
	r := start(t, b, Options{Limits: Limits{WatcherBuffer: minWatcherBuffer}}, func(s *Server) {
		s.answerTimeout = time.Hour // they are not to be cut off
	})
	before := heap()
	for i := range clients {
		if i%5 == 0 {
			r.plain("GET /v1/events HTTP/1.1\r\nHost: x\r\n\r\n")
			continue
		}
		if _, err := r.dial().Watch(t.Context(), &hybridplegv1.WatchRequest{}); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "all to watch", func() bool { return r.watches.count() == clients })
	message := strings.Repeat("m", 1000)
	for n := range total {
		to := []event.State{event.StateCreated, event.StateRunning, event.StateExited, event.StateNonExistent}[n%4]
		c := change(0, fmt.Sprint(n/4), to)
		c.Status = &event.Status{Message: message}
		b.Publish([]relist.Change{c})
	}
	const most = journalBytes + cachedBytes + clients*room
	var grown int64
	eventually(t, "the memory to be bounded", func() bool {
		grown = heap() - before
		return grown <= most
	})
	t.Logf("the heap grew by %d KiB, %d KiB are allowed", grown>>10, most>>10)
	if n := r.watches.count(); n != clients {
		t.Errorf("%d watches: those that are gone show nothing", n)
	}
}
