package client_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/client"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/merge"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newClient(t testing.TB, path string) *client.Client {
	t.Helper()
	c, err := client.New(client.Options{Address: "unix://" + path})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// following is a stream that a test takes one update from at a time.
type following struct {
	t       testing.TB
	updates chan client.Update
	err     error // once updates is closed
	stop    context.CancelFunc
}

func follow(t testing.TB, c *client.Client, o client.WatchOptions) *following {
	ctx, cancel := context.WithCancel(t.Context())
	f := &following{t: t, updates: make(chan client.Update), stop: cancel}
	go func() {
		defer close(f.updates)
		for u, err := range c.Events(ctx, o) {
			if err != nil {
				f.err = err
				return
			}
			select {
			case f.updates <- u:
			case <-ctx.Done():
				f.err = ctx.Err()
				return
			}
		}
	}()
	t.Cleanup(func() { f.end() })
	return f
}

// end ends the stream and returns its error.
func (f *following) end() error {
	f.stop()
	for range f.updates {
	}
	return f.err
}

const patience = time.Minute

func (f *following) next() client.Update {
	f.t.Helper()
	select {
	case u, ok := <-f.updates:
		if !ok {
			f.t.Fatalf("the stream has ended: %v", f.err)
		}
		return u
	case <-time.After(patience):
		f.t.Fatal("nothing comes")
	}
	panic("not reached")
}

// expect wants these updates next, as describe writes them, and returns the last's token.
func (f *following) expect(want ...string) merge.Token {
	f.t.Helper()
	var u client.Update
	for _, w := range want {
		u = f.next()
		if got := describe(u); got != w {
			f.t.Fatalf("%s, want %s", got, w)
		}
	}
	return u.Token
}

func describe(u client.Update) string {
	switch u.Kind {
	case client.KindPod:
		return "pod " + u.Pod.Pod.UID
	case client.KindEvent:
		s := u.Event.ID
		if u.Event.Detection.FoundBy == client.FoundBySnapshot {
			s += " by snapshot"
		}
		if u.Event.Inferred {
			s += ", inferred"
		}
		return s
	default:
		return fmt.Sprint(u.Kind)
	}
}
