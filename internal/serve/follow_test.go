package serve

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	hybridplegv1 "github.com/hybrid-pleg/hybrid-pleg/api/hybridpleg/v1"
	"github.com/hybrid-pleg/hybrid-pleg/internal/filter"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/merge"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/relist"
)

// notes is a sink that keeps what it is given; flushed and onPod are called meanwhile.
type notes struct {
	got            []string
	flushed, onPod func()
}

func (n *notes) note(kind string) error {
	n.got = append(n.got, kind)
	return nil
}

func (n *notes) synced(t merge.Token) error   { return n.note("synced@" + t.String()) }
func (n *notes) event(e *event.Event) error   { return n.note("event:" + e.ID) }
func (n *notes) expired(merge.Token) error    { return n.note("expired") }
func (n *notes) bookmark(t merge.Token) error { return n.note("bookmark@" + t.String()) }
func (n *notes) beat() error                  { return nil }

func (n *notes) pod(p *event.PodStatus) error {
	n.onPod()
	return n.note("pod:" + p.Pod.Name)
}

func (n *notes) flush() error {
	n.flushed()
	return nil
}

// TestNoBookmarkInSnapshot has a client that is slow to take a snapshot after it fell
// behind, when its token had moved before: a bookmark then would have it resume with
// half of what is.
func TestNoBookmarkInSnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBackend(t, merge.Options{Epoch: "e", JournalEvents: 2})
		b.pods(4)
		s, err := New(Options{Backend: b})
		if err != nil {
			t.Fatal(err)
		}
		f, err := filter.New(filter.Spec{Namespaces: []string{"b"}})
		if err != nil {
			t.Fatal(err)
		}
		fo, err := s.open(formGRPC, merge.Token{}, f)
		if err != nil {
			t.Fatal(err)
		}
		defer fo.close()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		flushes := 0
		out := &notes{onPod: func() { time.Sleep(2 * s.bookmarkEvery) }}
		out.flushed = func() {
			switch flushes++; flushes {
			case 1: // synced: the token moves on, past what the filter leaves out
				b.Publish([]relist.Change{change(0, "c000", event.StateExited)})
			case 2: // and the journal goes on without the watcher
				for range 3 {
					b.Publish([]relist.Change{change(2, "c002", event.StateExited), change(2, "c002", event.StateNonExistent)})
					b.Publish([]relist.Change{change(0, "c000", event.StateNonExistent)})
				}
			case 3:
				cancel()
			}
		}
		if err := fo.run(ctx, out); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		want := []string{"pod:p001", "pod:p003", "synced@e-8", "expired", "pod:p001", "pod:p003", "synced@e-12"}
		if !slices.Equal(out.got, want) {
			t.Errorf("got  %q\nwant %q", out.got, want)
		}
		if slow, token := counted(t, s.metrics.expired, expiredSlow), counted(t, s.metrics.expired, expiredToken); slow != 1 || token != 0 {
			t.Errorf("%d were counted as slow, %d for their token", slow, token)
		}
	})
}

// TestExpiredTokens has clients with tokens that can't be resumed from, which are not
// to be taken for slow ones.
func TestExpiredTokens(t *testing.T) {
	b := newBackend(t, merge.Options{Epoch: "e", JournalEvents: 2})
	b.pods(2)
	r := start(t, b, Options{}, nil)
	for i, since := range []string{"other-1", "e-1", "e-99"} {
		stream, err := r.dial().Watch(within(t), &hybridplegv1.WatchRequest{Since: since})
		if err != nil {
			t.Fatal(err)
		}
		wantItems(t, items(t, stream, 1), "expired:"+since)
		if code, body := get(t, r.http(), "/v1/events?since="+since); code != 410 {
			t.Errorf("%s: %d %s", since, code, body)
		}
		if n := counted(t, r.metrics.expired, expiredToken); n != 2*(i+1) {
			t.Errorf("%s: %d were counted", since, n)
		}
	}
	if n := counted(t, r.metrics.expired, expiredSlow); n != 0 {
		t.Errorf("%d were counted as slow", n)
	}
}
