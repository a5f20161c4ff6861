package serve

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/internal/filter"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/merge"
)

// bookmarkEvery is how often a watch whose filter let nothing through looks whether
// its token moved, and an idle one of server-sent events whether a sign of life is due.
const bookmarkEvery = 5 * time.Second

// sink writes the items of a watch in one form. A method may block while the client
// does not read; an error ends the watch.
type sink interface {
	pod(*event.PodStatus) error
	synced(merge.Token) error
	event(*event.Event) error
	expired(since merge.Token) error
	bookmark(merge.Token) error
	// flush sends what was written.
	flush() error
	// beat is called every bookmarkEvery while nothing else is to be written.
	beat() error
}

// follower is a watch that was opened for a client.
type follower struct {
	server  *Server
	watcher *merge.Watcher
	filter  *filter.Filter
	// lost is the token that could not be resumed from, as far as that is known from
	// the start.
	lost merge.Token
	// first was taken from the watcher ahead of run.
	first *merge.Item
	// ticks: beats or bookmarks may be due.
	ticks bool
	leave func()
}

// open opens a watch. The error is errEnding, errFull when there are too many, or
// wraps merge.ErrBadToken.
func (s *Server) open(form string, since merge.Token, f *filter.Filter) (*follower, error) {
	if err := s.watches.enter(); err != nil {
		if errors.Is(err, errFull) {
			s.metrics.rejected.WithLabelValues(limitWatchers).Inc()
		}
		return nil, err
	}
	fo := &follower{server: s, filter: f, ticks: f != nil || form == formSSE}
	w, err := s.backend.Watch(merge.WatchOptions{Since: since})
	if errors.Is(err, merge.ErrFutureToken) {
		// This log never gave it out, so what its holder knows is of no use.
		fo.lost = since
		w, err = s.backend.Watch(merge.WatchOptions{})
	}
	if err != nil {
		s.watches.leave()
		if errors.Is(err, merge.ErrClosed) {
			err = errEnding
		}
		return nil, err
	}
	open := s.metrics.watchers.WithLabelValues(form)
	open.Inc()
	fo.watcher = w
	fo.leave = func() {
		w.Close()
		open.Dec()
		s.watches.leave()
	}
	return fo, nil
}

func (f *follower) close() { f.leave() }

// expired reports whether the token can't be resumed from, before anything is
// written. It does not wait: a watch begins with a snapshot, with the past, or with
// the word that there is none.
func (f *follower) expired(ctx context.Context) (bool, error) {
	if !f.lost.IsZero() {
		f.countExpired(expiredToken)
		return true, nil
	}
	item, err := f.watcher.Next(ctx)
	if errors.Is(err, merge.ErrClosed) {
		return false, errEnding
	}
	f.first = &item
	if item.Kind == merge.ItemExpired {
		f.countExpired(expiredToken)
		return true, nil
	}
	return false, err
}

func (f *follower) countExpired(reason string) {
	f.server.metrics.expired.WithLabelValues(reason).Inc()
}

func (f *follower) next(ctx context.Context) (merge.Item, error) {
	if f.first != nil {
		item := *f.first
		f.first = nil
		return item, nil
	}
	return f.watcher.Next(ctx)
}

// run writes items until ctx ends, the sink fails or the stream ends, which is
// errEnding.
func (f *follower) run(ctx context.Context, out sink) error {
	why := expiredToken // of an Expired that comes first
	if !f.lost.IsZero() {
		f.countExpired(why)
		if err := out.expired(f.lost); err != nil {
			return err
		}
	}
	// The last token that was written, and that was reached. Both are zero within a
	// snapshot, which is nothing to resume from.
	var told, passed merge.Token
	wait, cancel := f.wait(ctx)
	defer func() { cancel() }()
	for {
		item, err := f.next(wait)
		switch {
		case err == nil:
		case errors.Is(err, merge.ErrClosed):
			return errors.Join(errEnding, out.flush())
		case ctx.Err() != nil:
			return context.Cause(ctx)
		default: // a tick
			cancel()
			wait, cancel = f.wait(ctx)
			if err := f.tick(out, &told, passed); err != nil {
				return err
			}
			continue
		}
		if item.Kind == merge.ItemExpired {
			f.countExpired(why)
			told, passed = merge.Token{}, merge.Token{}
		}
		why = expiredSlow
		wrote, err := f.write(item, out)
		if err != nil {
			return err
		}
		if item.Kind == merge.ItemPod || item.Kind == merge.ItemExpired {
			continue // more of the snapshot follows without a wait
		}
		passed = item.Token
		if wrote {
			told = passed
		}
		// Next waits only when there is no lag. What the filter leaves out counts too,
		// as something written before it may be still to be sent.
		if f.watcher.Lag() == 0 {
			if err := out.flush(); err != nil {
				return err
			}
		}
	}
}

// wait is the context for a wait until the next tick.
func (f *follower) wait(ctx context.Context) (context.Context, context.CancelFunc) {
	if !f.ticks {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, f.server.bookmarkEvery)
}

func (f *follower) tick(out sink, told *merge.Token, passed merge.Token) error {
	if passed == *told {
		return out.beat()
	}
	*told = passed
	return errors.Join(out.bookmark(passed), out.flush())
}

func (f *follower) write(item merge.Item, out sink) (wrote bool, err error) {
	switch item.Kind {
	case merge.ItemPod:
		if !f.filter.Pods(item.Pod) {
			return false, nil
		}
		return true, out.pod(item.Pod)
	case merge.ItemSynced:
		return true, out.synced(item.Token)
	case merge.ItemEvent:
		if !f.filter.Events(item.Event) {
			return false, nil
		}
		return true, out.event(item.Event)
	case merge.ItemExpired:
		return true, out.expired(item.Token)
	default:
		return false, fmt.Errorf("a watcher gave an item of kind %s", item.Kind)
	}
}
