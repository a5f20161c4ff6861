package client_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/internal/daemontest"
	"github.com/hybrid-pleg/hybrid-pleg/internal/serve"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/client"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/merge"
	"google.golang.org/grpc"
)

func TestEvents(t *testing.T) {
	path := daemontest.SocketPath(t)
	b := daemontest.New(t, merge.Options{})
	b.Tell(event.ContainerStarted, "p1", "c1")
	stop := daemontest.Start(t, path, b)
	c := newClient(t, path)
	f := follow(t, c, client.WatchOptions{})
	f.expect("reset", "pod p1", "synced")
	b.Tell(event.ContainerStarted, "p2", "c2")
	kept := f.expect("c2/ContainerStarted")

	// The daemon is away, and comes back with what it knew.
	stop()
	b.Tell(event.ContainerDied, "p2", "c2")
	daemontest.Start(t, path, b)
	f.expect("c2/ContainerDied")

	// Another stream, of a caller that was away itself.
	g := follow(t, c, client.WatchOptions{Since: kept})
	g.expect("c2/ContainerDied", "synced")
	b.Tell(event.ContainerRemoved, "p2", "c2")
	f.expect("c2/ContainerRemoved")
	g.expect("c2/ContainerRemoved")
	if err := f.end(); !errors.Is(err, context.Canceled) {
		t.Errorf("the stream ended with %v", err)
	}
}

// TestDaemonForgets has a daemon that comes back without what it knew.
func TestDaemonForgets(t *testing.T) {
	path := daemontest.SocketPath(t)
	b := daemontest.New(t, merge.Options{})
	for _, id := range []string{"c1", "c2", "c3"} {
		b.Tell(event.ContainerStarted, "p1", id)
	}
	stop := daemontest.Start(t, path, b)
	c := newClient(t, path)
	f := follow(t, c, client.WatchOptions{})
	f.expect("reset", "pod p1", "synced")
	b.Tell(event.ContainerStarted, "p1", "c4")
	kept := f.expect("c4/ContainerStarted")
	// This one knows what its caller knows although it was told none of it.
	g := follow(t, c, client.WatchOptions{Since: kept})
	g.expect("synced")

	stop()
	b = daemontest.New(t, merge.Options{})
	// It has not looked yet: what it lacks need not be gone.
	b.SetHealthy(errors.New("the runtime has not been listed yet"))
	daemontest.Start(t, path, b)
	b.Tell(event.ContainerStarted, "p1", "c1")
	b.Tell(event.ContainerDied, "p1", "c1")
	b.Tell(event.ContainerStarted, "p1", "c3")
	b.Tell(event.ContainerStarted, "p1", "c5")
	b.SetHealthy(nil)
	told := []string{
		"c1/ContainerDied",
		"c2/ContainerDied by snapshot, inferred", "c2/ContainerRemoved by snapshot",
		"c4/ContainerDied by snapshot, inferred", "c4/ContainerRemoved by snapshot",
		"c5/ContainerStarted", "bookmark",
	}
	for _, s := range []*following{f, g} {
		seen := map[string]int{}
		for range told {
			seen[describe(s.next())]++
		}
		for _, want := range told {
			if seen[want] != 1 {
				t.Errorf("%s was told %d times; told were %v", want, seen[want], seen)
			}
		}
	}
	// Who comes anew with an old token starts again.
	h := follow(t, c, client.WatchOptions{Since: kept})
	h.expect("reset", "pod p1", "synced")
}

// TestDaemonKilled has a daemon that is killed before its last events are written, and
// whose successor tells of some that come and go before its clients are back.
func TestDaemonKilled(t *testing.T) {
	path := daemontest.SocketPath(t)
	b := daemontest.New(t, merge.Options{})
	b.Tell(event.ContainerStarted, "p0", "c0")
	b.Tell(event.ContainerDied, "p0", "c0")
	b.Tell(event.ContainerRemoved, "p0", "c0") // before anybody looks
	b.Tell(event.ContainerStarted, "p1", "c1")
	stop := daemontest.Start(t, path, b)
	c := newClient(t, path)
	all := follow(t, c, client.WatchOptions{})
	all.expect("reset", "pod p1", "synced")
	some := follow(t, c, client.WatchOptions{Filter: client.Filter{PodUIDs: []string{"p1"}, Types: []event.Type{event.ContainerDied}}})
	some.expect("reset", "pod p1", "synced")
	b.Tell(event.PodSync, "p1", "c1")
	synced := all.next().Event.ID
	kept := b.Kept(t)
	b.Tell(event.ContainerStarted, "p1", "c2")
	b.Tell(event.ContainerStarted, "p1", "c3")
	b.Tell(event.ContainerDied, "p1", "c2")
	last := all.expect("c2/ContainerStarted", "c3/ContainerStarted", "c2/ContainerDied")
	some.expect("c2/ContainerDied")
	stop()

	b = daemontest.New(t, merge.Options{Restore: kept})
	b.Tell(event.ContainerStarted, "p1", "c2")
	b.Tell(event.ContainerDied, "p1", "c2")
	life := []event.Type{event.ContainerCreated, event.ContainerStarted, event.PodSync, event.ContainerDied, event.ContainerRemoved}
	for _, pod := range []string{"p1", "p2"} {
		for _, typ := range life {
			b.Tell(typ, pod, "short-of-"+pod)
		}
	}
	place := b.Token()
	daemontest.Start(t, path, b)
	// c3 is gone, and the daemon knew nothing of it any more: that is older than what
	// is in its journal.
	all.expect("c3/ContainerDied by snapshot, inferred", "c3/ContainerRemoved by snapshot")
	for _, pod := range []string{"p1", "p2"} {
		for _, typ := range life {
			u := all.next()
			if u.Event.Type != typ || u.Event.Container.ID != "short-of-"+pod || u.Event.ID == synced || u.Event.Epoch != place.Epoch || u.Event.Sequence == 0 {
				t.Errorf("%s, %s-%d; want the %s of %s as the daemon told it", describe(u), u.Event.Epoch, u.Event.Sequence, typ, pod)
			}
			if u.Token != last {
				t.Errorf("%s has the token %s, want that of before, %s", describe(u), u.Token, last)
			}
		}
	}
	some.expect("c3/ContainerDied by snapshot, inferred", "short-of-p1/ContainerDied")
	for _, f := range []*following{all, some} {
		if got := f.expect("bookmark"); got != place {
			t.Errorf("at the end it is at %s, want %s", got, place)
		}
	}
	b.Tell(event.ContainerDied, "p1", "c1")
	all.expect("c1/ContainerDied")
	some.expect("c1/ContainerDied")
}

// TestBothEnd has a caller that was restarted, which knows nothing any more of what was
// removed before, and then a daemon that tells of it again.
func TestBothEnd(t *testing.T) {
	path := daemontest.SocketPath(t)
	b := daemontest.New(t, merge.Options{})
	b.Tell(event.ContainerStarted, "p1", "c1")
	b.Tell(event.ContainerStarted, "p1", "c2")
	stop := daemontest.Start(t, path, b)
	c := newClient(t, path)
	f := follow(t, c, client.WatchOptions{})
	f.expect("reset", "pod p1", "synced")
	kept := b.Kept(t)
	b.Tell(event.ContainerDied, "p1", "c1")
	b.Tell(event.ContainerRemoved, "p1", "c1")
	last := f.expect("c1/ContainerDied", "c1/ContainerRemoved")
	_ = f.end()
	f = follow(t, c, client.WatchOptions{Since: last})
	f.expect("synced")
	stop()
	b = daemontest.New(t, merge.Options{Restore: kept})
	b.Tell(event.ContainerDied, "p1", "c1")
	b.Tell(event.ContainerRemoved, "p1", "c1")
	b.Tell(event.ContainerDied, "p1", "c2")
	daemontest.Start(t, path, b)
	f.expect("c2/ContainerDied", "bookmark")
}

// TestNotReady holds a comparison back for as long as the daemon is not healthy.
func TestNotReady(t *testing.T) {
	path := daemontest.SocketPath(t)
	b := daemontest.New(t, merge.Options{})
	b.Tell(event.ContainerStarted, "p1", "c1")
	stop := daemontest.Start(t, path, b)
	var mu sync.Mutex
	var reasons []string
	f := follow(t, newClient(t, path), client.WatchOptions{OnConnection: func(n client.Connection) {
		mu.Lock()
		defer mu.Unlock()
		if n.Err != nil {
			reasons = append(reasons, n.Err.Error())
		}
	}})
	f.expect("reset", "pod p1", "synced")
	stop()
	b = daemontest.New(t, merge.Options{})
	b.SetHealthy(errors.New("not listed, says the test"))
	daemontest.Start(t, path, b)
	tries := func() int {
		mu.Lock()
		defer mu.Unlock()
		n := 0
		for _, r := range reasons {
			if strings.Contains(r, "not listed, says the test") {
				n++
			}
		}
		return n
	}
	until(t, "it has tried twice", func() bool { return tries() >= 2 })
	select {
	case u := <-f.updates:
		t.Fatalf("told: %s", describe(u))
	default:
	}
	b.Tell(event.ContainerStarted, "p1", "c1")
	b.SetHealthy(nil)
	b.Tell(event.ContainerStarted, "p1", "c2")
	if got := describe(f.next()); !strings.HasPrefix(got, "c2/ContainerStarted") && got != "bookmark" {
		t.Errorf("told: %s", got)
	}
}

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	deadline := time.After(patience)
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("never: %s", what)
		}
	}
}

// TestSlow has a caller that is too slow for the journal.
func TestSlow(t *testing.T) {
	path := daemontest.SocketPath(t)
	b := daemontest.New(t, merge.Options{JournalEvents: 4})
	daemontest.Start(t, path, b)
	f := follow(t, newClient(t, path), client.WatchOptions{})
	f.expect("reset", "synced")
	// More than the transport holds.
	const n = 5000
	for i := range n {
		id := "c" + strings.Repeat("x", 60) + string(rune('0'+i%10)) + time.Duration(i).String()
		b.Tell(event.ContainerStarted, "p1", id)
		b.Tell(event.ContainerDied, "p1", id)
	}
	b.Tell(event.ContainerStarted, "p1", "last")
	seen := map[string]int{}
	bySnapshot := 0
	for seen["last/ContainerStarted"] == 0 {
		u := f.next()
		if u.Kind == client.KindReset {
			t.Fatal("a reset")
		}
		if u.Kind != client.KindEvent {
			continue
		}
		seen[u.Event.ID]++
		if u.Event.Detection.FoundBy == client.FoundBySnapshot {
			bySnapshot++
		}
	}
	if len(seen) != 2*n+1 {
		t.Errorf("%d events were told, want %d", len(seen), 2*n+1)
	}
	for id, times := range seen {
		if times != 1 {
			t.Errorf("%s was told %d times", id, times)
		}
	}
	if bySnapshot == 0 {
		t.Errorf("the caller was never too slow: the test tests nothing")
	}
}

func TestFilter(t *testing.T) {
	path := daemontest.SocketPath(t)
	b := daemontest.New(t, merge.Options{})
	b.Tell(event.ContainerStarted, "p1", "c1")
	b.Tell(event.ContainerStarted, "p2", "c2")
	stop := daemontest.Start(t, path, b)
	f := follow(t, newClient(t, path), client.WatchOptions{Filter: client.Filter{
		PodUIDs: []string{"p1"}, Types: []event.Type{event.ContainerRemoved, event.SandboxRemoved}, Subject: client.SubjectContainer,
	}})
	f.expect("reset", "pod p1", "synced")
	b.Tell(event.ContainerDied, "p1", "c1")
	b.Tell(event.ContainerRemoved, "p2", "c2")
	b.Tell(event.SandboxStarted, "p1", "s1")
	b.Tell(event.SandboxRemoved, "p1", "s1")
	b.Tell(event.ContainerStarted, "p1", "c3")
	b.Tell(event.ContainerRemoved, "p1", "c1")
	f.expect("c1/ContainerRemoved")
	// What it does not want it knows all the same.
	stop()
	daemontest.Start(t, path, daemontest.New(t, merge.Options{}))
	f.expect("c3/ContainerRemoved by snapshot", "bookmark")
}

// TestBookmarks wants the token to move on while a filter lets nothing through.
func TestBookmarks(t *testing.T) {
	path := daemontest.SocketPath(t)
	b := daemontest.New(t, merge.Options{})
	daemontest.Start(t, path, b)
	f := follow(t, newClient(t, path), client.WatchOptions{Filter: client.Filter{Types: []event.Type{event.PodSync}}})
	f.expect("reset", "synced")
	for range 64 {
		b.Tell(event.ContainerStarted, "p1", time.Duration(b.Token().Sequence).String())
	}
	if got := f.expect("bookmark"); got != b.Token() {
		t.Errorf("the bookmark is at %s, the log at %s", got, b.Token())
	}
}

func TestStreamErrors(t *testing.T) {
	nobody := daemontest.SocketPath(t)
	other := daemontest.SocketPath(t)
	l, err := net.Listen("unix", other)
	if err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer()
	go func() { _ = g.Serve(l) }()
	t.Cleanup(g.Stop)
	web := daemontest.SocketPath(t)
	wl, err := net.Listen("unix", web)
	if err != nil {
		t.Fatal(err)
	}
	h := &http.Server{Handler: http.NotFoundHandler()}
	go func() { _ = h.Serve(wl) }()
	t.Cleanup(func() { h.Close() })
	silent := daemontest.SocketPath(t)
	sl, err := net.Listen("unix", silent)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sl.Close() })
	full := daemontest.SocketPath(t)
	daemontest.Start(t, full, daemontest.New(t, merge.Options{}))

	tests := []struct {
		name string
		path string
		opts client.WatchOptions
		want error
		says string
	}{
		{"nobody", nobody, client.WatchOptions{ConnectWithin: time.Millisecond}, client.ErrUnavailable, "is \"hybrid-pleg run --listen unix://" + nobody + "\" up?"},
		{"silent", silent, client.WatchOptions{ConnectWithin: 50 * time.Millisecond}, client.ErrUnavailable, "in time"},
		{"another service", other, client.WatchOptions{}, client.ErrNotHybridPleg, "is it the socket that"},
		{"HTTP", web, client.WatchOptions{}, client.ErrNotHybridPleg, "is it the socket that"},
		{"filter", full, client.WatchOptions{Filter: client.Filter{LabelSelector: "a in b"}}, client.ErrFilter, "a in b"},
		{"types", full, client.WatchOptions{Filter: client.Filter{Types: []event.Type{"Nonsense"}}}, client.ErrFilter, "ContainerStarted"},
		{"subject", full, client.WatchOptions{Filter: client.Filter{Subject: "pod"}}, client.ErrFilter, "container or sandbox"},
		{"token", full, client.WatchOptions{Since: merge.Token{Epoch: "no-such", Sequence: 1}}, client.ErrRefused, "bad token"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := newClient(t, tt.path)
			n := 0
			for u, err := range c.Events(t.Context(), tt.opts) {
				if n++; n > 1 || err == nil {
					t.Fatalf("after %d: %v, %v", n, u, err)
				}
				if !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.says) {
					t.Errorf("the error is %v", err)
				}
			}
			if n == 0 {
				t.Error("the stream ends without an error")
			}
		})
	}
}

// TestEnough ends a stream by leaving the loop.
func TestEnough(t *testing.T) {
	path := daemontest.SocketPath(t)
	daemontest.Start(t, path, daemontest.New(t, merge.Options{}))
	for u, err := range newClient(t, path).Events(t.Context(), client.WatchOptions{}) {
		if err != nil || u.Kind != client.KindReset {
			t.Errorf("%v, %v", u, err)
		}
		break
	}
}

func TestAddress(t *testing.T) {
	if client.DefaultAddress != serve.DefaultListen {
		t.Errorf("clients look at %s, daemons listen at %s", client.DefaultAddress, serve.DefaultListen)
	}
	for address, says := range map[string]string{
		"localhost:80":                 "unix:///path/to/socket",
		"unix://relative":              "unix:///path/to/socket",
		"tcp:///x":                     "unix:///path/to/socket",
		"/" + strings.Repeat("x", 200): "201 bytes",
		t.TempDir():                    "no socket",
	} {
		if _, err := client.New(client.Options{Address: address}); !errors.Is(err, client.ErrAddress) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", address, err)
		}
	}
}
