package serve

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"

	"github.com/hybrid-pleg/hybrid-pleg/internal/testutil"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/merge"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/relist"
)

// page follows the events with the browser's own EventSource, and reports each.
const page = `<!doctype html><script>
const tell = text => fetch('/tell', {method: 'POST', body: text});
let last = Promise.resolve();
const source = new EventSource('/v1/events?subject=container');
for (const name of ['pod', 'synced', 'event', 'expired', 'bookmark'])
  source.addEventListener(name, e => {
    const item = JSON.parse(e.data);
    const what = item.pod ? item.pod.pod.name : item.event ? item.event.id : '';
    last = last.then(() => tell(name + ' ' + what + ' ' + e.lastEventId));
  });
</script>`

// told is what the page reported.
type told struct {
	mu    sync.Mutex
	lines []string
}

func (p *told) wrap(api http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", api)
	mux.HandleFunc("GET /page", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, page)
	})
	mux.HandleFunc("POST /tell", func(_ http.ResponseWriter, r *http.Request) {
		text := make([]byte, r.ContentLength)
		_, _ = r.Body.Read(text)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.lines = append(p.lines, string(text))
	})
	return mux
}

func (p *told) has(lines ...string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Equal(p.lines, lines)
}

// TestEventSource has a browser follow the events, over a restart of the server: it
// connects again by itself and misses nothing.
func TestEventSource(t *testing.T) {
	testutil.Browser(t)
	b := newBackend(t, merge.Options{Epoch: "e"})
	b.pods(1)
	var p told
	serveAt := func(addr string) (string, context.CancelFunc, <-chan error) {
		t.Helper()
		s, err := New(Options{Backend: b})
		if err != nil {
			t.Fatal(err)
		}
		s.handler = p.wrap(s.handler)
		l, err := ListenHTTP(t.Context(), addr, TLSFiles{}, s.log)
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx, Listeners{HTTP: l}) }()
		return l.Addr().String(), stop, ended
	}
	addr, stop, ended := serveAt("127.0.0.1:0")
	testutil.Browse(t, "http://"+addr+"/page")
	want := []string{"pod p000 ", "synced  e-2"}
	eventually(t, "the snapshot in the browser", func() bool { return p.has(want...) })
	b.Publish([]relist.Change{change(0, "c000", event.StateExited)})
	want = append(want, "event c000/ContainerDied e-3")
	eventually(t, "an event in the browser", func() bool { return p.has(want...) })

	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	b.Publish([]relist.Change{change(0, "c000", event.StateNonExistent)})
	_, stop, ended = serveAt(addr)
	want = append(want, "event c000/ContainerRemoved e-4", "synced  e-4")
	eventually(t, "the rest in the browser", func() bool { return p.has(want...) })
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
}
