package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	hybridplegv1 "github.com/hybrid-pleg/hybrid-pleg/api/hybridpleg/v1"
	"github.com/hybrid-pleg/hybrid-pleg/internal/filter"
	"github.com/hybrid-pleg/hybrid-pleg/internal/wire"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/merge"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/relist"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// segment is what a client got from one snapshot to the next.
type segment struct {
	pods   map[string]string // item ID to state
	synced uint64            // 0: it was not complete
	events []mark
}

// mark is what an event is known by.
type mark struct {
	sequence uint64
	id       string
}

// client is one of a crowd.
type client struct {
	spec  filter.Spec
	picks func(*event.Event) bool // the same, in plain words
	slow  bool                    // it stalls until the journal has gone on
	stall uint64                  // it reads so many at a time, and lets others go ahead

	at       atomic.Uint64 // the sequence of the last token
	segments []*segment
}

// take is called for each item.
func (c *client) take(item *line) error {
	if item.Token != "" {
		token, err := merge.ParseToken(item.Token)
		if err != nil {
			return err
		}
		c.at.Store(token.Sequence)
	}
	if item.Expired != nil || len(c.segments) == 0 {
		c.segments = append(c.segments, &segment{pods: map[string]string{}})
	}
	now := c.segments[len(c.segments)-1]
	switch {
	case item.Pod != nil:
		if now.synced != 0 {
			return errors.New("a pod after the snapshot was complete")
		}
		addPod(now.pods, item.Pod)
	case item.Synced != nil:
		now.synced = c.at.Load()
	case item.Event != nil:
		if now.synced == 0 {
			return errors.New("an event within a snapshot")
		}
		now.events = append(now.events, mark{item.Event.Sequence, item.Event.ID})
	case item.Bookmark != nil:
		if now.synced == 0 {
			return errors.New("a bookmark within a snapshot")
		}
	}
	return nil
}

func addPod(to map[string]string, p *event.PodStatus) {
	for _, s := range p.Sandboxes {
		to[s.Sandbox.ID] = string(s.State)
	}
	for _, c := range p.Containers {
		to[c.Container.ID] = string(c.State)
	}
}

// follow reads what next gives until the stream ends as a server's end does.
func (c *client) follow(b *backend, published <-chan struct{}, next func() (*line, error)) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for n := uint64(1); ; n++ {
		item, err := next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = c.take(item)
		}
		if err != nil {
			return err
		}
		if c.slow && n == 100 {
			<-published
		}
		for c.stall > 0 && n%c.stall == 0 && b.Token().Sequence < c.at.Load()+c.stall {
			select {
			case <-tick.C:
				continue
			case <-published:
			}
			break
		}
	}
}

// check compares what was got with what was published.
func (c *client) check(all []event.Event) error {
	podsOnly := &client{picks: c.picks}
	if c.spec.Types != nil || c.spec.Subject != "" {
		podsOnly.picks = func(*event.Event) bool { return true } // these pick no pods
	}
	for i, s := range c.segments {
		last := i == len(c.segments)-1
		if s.synced == 0 {
			if last {
				return errors.New("the last snapshot is not complete")
			}
			continue // it expired within the snapshot
		}
		if want := fold(all[:s.synced], podsOnly.picks); !maps.Equal(s.pods, want) {
			return fmt.Errorf("the snapshot at %d has %d items, want %d", s.synced, len(s.pods), len(want))
		}
		var want []mark
		for j := range all[s.synced:] {
			if e := &all[s.synced:][j]; c.picks(e) {
				want = append(want, mark{e.Sequence, e.ID})
			}
		}
		if len(s.events) > len(want) || last && len(s.events) != len(want) {
			return fmt.Errorf("%d events after %d, want %d", len(s.events), s.synced, len(want))
		}
		for j := range s.events {
			if s.events[j] != want[j] {
				return fmt.Errorf("event %d after %d is %v, want %v", j, s.synced, s.events[j], want[j])
			}
		}
	}
	return nil
}

// fold is what events add up to.
func fold(events []event.Event, picks func(*event.Event) bool) map[string]string {
	state := map[string]string{}
	for i := range events {
		e := &events[i]
		if !picks(e) {
			continue
		}
		switch {
		case e.Container == nil:
			state[e.Sandbox.ID] = string(e.To)
		case e.Type == event.ContainerRemoved:
			delete(state, e.Container.ID)
		default:
			state[e.Container.ID] = string(e.To)
		}
	}
	return state
}

// crowd makes n clients of all speeds and filters.
func crowd(n int) []*client {
	filters := []struct {
		spec  filter.Spec
		picks func(*event.Event) bool
	}{
		{filter.Spec{}, func(*event.Event) bool { return true }},
		{filter.Spec{Namespaces: []string{"a"}}, func(e *event.Event) bool { return e.Pod.Namespace == "a" }},
		{filter.Spec{LabelSelector: "app=odd"}, func(e *event.Event) bool { return e.Sandbox.Labels["app"] == "odd" }},
		{filter.Spec{Types: []event.Type{event.ContainerDied}}, func(e *event.Event) bool { return e.Type == event.ContainerDied }},
		{filter.Spec{PodUIDs: []string{"uid-p007", "uid-p008"}}, func(e *event.Event) bool { return e.Pod.Name == "p007" || e.Pod.Name == "p008" }},
		{filter.Spec{Subject: filter.SubjectContainer}, func(e *event.Event) bool { return e.Container != nil }},
		{filter.Spec{Namespaces: []string{"none"}}, func(*event.Event) bool { return false }},
	}
	clients := make([]*client, n)
	for i := range clients {
		f := filters[i%len(filters)]
		c := &client{spec: f.spec, picks: f.picks}
		switch i % 4 {
		case 1:
			c.stall = uint64(10 + i)
		case 2:
			c.slow = true
		}
		clients[i] = c
	}
	return clients
}

// TestCrowd has a hundred clients of different speeds and filters, over gRPC and HTTP,
// follow 5,000 transitions. Who keeps up gets exactly its own, in order; who stalls
// for too long is told that it expired, and gets a snapshot that is right.
func TestCrowd(t *testing.T) {
	const total, pods, lead = 5000, 20, 1000
	b := newBackend(t, merge.Options{Epoch: "e", JournalEvents: 2 * lead})
	r := start(t, b, Options{Limits: Limits{WatcherBuffer: minWatcherBuffer}}, func(s *Server) {
		s.bookmarkEvery = 100 * time.Millisecond
		s.answerTimeout = time.Hour // those that stall are not to be cut off
	})
	b.pods(pods / 2) // some are there before
	published := make(chan struct{})
	clients := crowd(100)
	ctx, cancel := context.WithTimeout(context.Background(), 5*patience)
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	for i, c := range clients {
		next := r.grpcItems
		if i%5 == 2 {
			next = r.httpItems
		}
		group.Go(func() error {
			read, err := next(ctx, c.spec)
			if err == nil {
				err = c.follow(b, published, read)
			}
			if err != nil {
				return fmt.Errorf("client %d: %w", i, err)
			}
			return nil
		})
	}
	eventually(t, "all to watch", func() bool { return r.watches.count() == len(clients) || ctx.Err() != nil })

	all := publish(t, ctx, b, clients, pods, total, lead)
	close(published)
	b.Close()
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	expired := 0
	for i, c := range clients {
		if err := c.check(all); err != nil {
			t.Errorf("client %d (%+v): %v", i, c.spec, err)
		}
		expired += len(c.segments) - 1
		if len(c.segments) > 1 && !c.slow {
			t.Errorf("client %d, which keeps up, expired", i)
		}
	}
	if expired == 0 {
		t.Error("no client expired: the test shows less than it should")
	}
	if r.cache.bytes > cachedBytes {
		t.Errorf("the cache holds %d bytes", r.cache.bytes)
	}
	t.Logf("%d expired", expired)
}

// publish makes what happens: containers of all pods come and go. It waits for those
// that keep up not to be more than lead behind.
func publish(t *testing.T, ctx context.Context, b *backend, clients []*client, pods, total, lead int) []event.Event {
	t.Helper()
	w, err := b.Watch(merge.WatchOptions{Since: merge.Token{Epoch: "e", Sequence: 0}})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	var all []event.Event
	for range b.Token().Sequence + 1 {
		item, err := w.Next(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if item.Kind == merge.ItemEvent {
			all = append(all, *item.Event)
		}
	}
	steps := []event.State{event.StateCreated, event.StateRunning, event.StateExited, event.StateNonExistent}
	message := strings.Repeat("m", 100)
	for n := 0; len(all) < total; n++ {
		round := n / pods
		c := change(n%pods, fmt.Sprintf("c%03d-%04d", n%pods, round/len(steps)), steps[round%len(steps)])
		if round == 0 && n%pods >= pods/2 {
			all = append(all, b.Publish([]relist.Change{change(n%pods, "", event.StateRunning)})...)
		}
		if c.Status == nil {
			c.Status = &event.Status{}
		}
		c.Status.Message = message
		all = append(all, b.Publish([]relist.Change{c})...)
		if n%100 == 0 {
			eventually(t, "those that keep up", func() bool {
				for _, c := range clients {
					if !c.slow && int(c.at.Load())+lead < len(all) && ctx.Err() == nil {
						return false
					}
				}
				return true
			})
		}
	}
	return all
}

// grpcItems opens a watch over gRPC on a connection of its own.
func (r *running) grpcItems(ctx context.Context, spec filter.Spec) (func() (*line, error), error) {
	stream, err := r.dial().Watch(ctx, &hybridplegv1.WatchRequest{Filter: spec.Proto()})
	if err != nil {
		return nil, err
	}
	return func() (*line, error) {
		m, err := stream.Recv()
		if status.Code(err) == codes.Unavailable && strings.Contains(err.Error(), errEnding.Error()) {
			return nil, io.EOF
		}
		if err != nil {
			return nil, err
		}
		out := &line{Token: m.GetToken()}
		switch x := m.Item.(type) {
		case *hybridplegv1.WatchResponse_Pod:
			p, err := wire.ToPod(x.Pod)
			out.Pod = &p
			return out, err
		case *hybridplegv1.WatchResponse_Event:
			e, err := wire.ToEvent(x.Event)
			out.Event = &e
			return out, err
		case *hybridplegv1.WatchResponse_Synced:
			out.Synced = &struct{}{}
		case *hybridplegv1.WatchResponse_Expired:
			out.Expired = &expiredLine{x.Expired.GetSince()}
		case *hybridplegv1.WatchResponse_Bookmark:
			out.Bookmark = &struct{}{}
		}
		return out, nil
	}, nil
}

// httpItems opens a watch over HTTP.
func (r *running) httpItems(ctx context.Context, spec filter.Spec) (func() (*line, error), error) {
	q := make([]string, 0, 8)
	add := func(key, value string) {
		if value != "" {
			q = append(q, key+"="+strings.ReplaceAll(value, "=", "%3D"))
		}
	}
	for _, t := range spec.Types {
		add("type", string(t))
	}
	add("namespace", strings.Join(spec.Namespaces, ","))
	add("uid", strings.Join(spec.PodUIDs, ","))
	add("selector", spec.LabelSelector)
	add("subject", string(spec.Subject))
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://x/v1/events?"+strings.Join(q, "&"), nil)
	if err != nil {
		return nil, err
	}
	resp, err := r.http().Transport.RoundTrip(req) //nolint:bodyclose // the end of ctx closes it
	if err != nil {
		return nil, err
	}
	dec := json.NewDecoder(resp.Body)
	return func() (*line, error) {
		var out line
		err := dec.Decode(&out)
		return &out, err
	}, nil
}
