package client

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	hybridplegv1 "github.com/hybrid-pleg/hybrid-pleg/api/hybridpleg/v1"
	"github.com/hybrid-pleg/hybrid-pleg/internal/wire"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/merge"
)

// WatchOptions say what a stream is to tell. The zero value is all pods as they are,
// and then all that happens, for ever.
type WatchOptions struct {
	// Since is the token of the last update dealt with, of this stream's or of one
	// before with the same filter. The zero Token: begin with a KindReset and all
	// pods.
	Since  merge.Token
	Filter Filter
	// ConnectWithin is how long the daemon may be away at the beginning, before the
	// stream ends with why it is, such as [ErrUnavailable] or [ErrLimit]. 0: for ever,
	// as it may be at any time later.
	ConnectWithin time.Duration
	// OnConnection is called when the daemon is reached and when it is lost, by the
	// goroutine that ranges over the stream. Nil: not called.
	OnConnection func(Connection)
}

// Connection says how a stream stands with the daemon.
type Connection struct {
	// Err is why there is no connection; nil while there is one.
	Err error
	// Info is of the daemon that was reached last.
	Info Info
}

// Events returns a stream of updates that does not end by itself: across restarts of
// the daemon it hands on each change once. See the package's documentation for what
// can be relied on.
//
// An error is the last thing that a stream yields: ctx's, or one that trying again
// can't mend ([ErrFilter], [ErrPermission], [ErrNotHybridPleg], [ErrRefused]), or
// that there was no daemon in [WatchOptions].ConnectWithin. One that is down later is
// none. Each range over the result is a stream of its own, which has
// no goroutine: while the caller deals with an update, the daemon waits.
func (c *Client) Events(ctx context.Context, o WatchOptions) iter.Seq2[Update, error] {
	return func(yield func(Update, error) bool) {
		s, err := c.newStream(o)
		if err == nil {
			err = s.run(ctx, func(u Update) bool { return yield(u, nil) })
		}
		if err != nil && !errors.Is(err, errEnough) {
			yield(Update{}, err)
		}
	}
}

// restartTime is how long a socket that has been the right one may be a wrong one, or
// closed to this user, while the daemon is being restarted.
const restartTime = 10 * time.Second

// leastAttempt is what an attempt to connect is given even when the time is up, so that the error can say what is wrong.
const leastAttempt = 100 * time.Millisecond

// errEnough says that the caller ranges no further.
var errEnough = errors.New("the caller has enough")

// errJournal says that the watch is to be begun anew where the ledger says.
var errJournal = errors.New("the journal is to be read")

// stream is one range over [Client.Events].
type stream struct {
	client *Client
	opts   WatchOptions
	filter *hybridplegv1.Filter
	ledger *ledger
	pauses pauses

	info      Info
	connected bool
	tried     bool
	found     bool      // was connected once
	since     time.Time // the connection's, while connected
	onReached func()    // of the connection
	// away is since when the daemon is; zero while it is not.
	away time.Time
}

func (c *Client) newStream(o WatchOptions) (*stream, error) {
	pods, events, err := o.Filter.split()
	if err != nil {
		return nil, err
	}
	if o.OnConnection == nil {
		o.OnConnection = func(Connection) {}
	}
	l := newLedger(o.Since, events, time.Now)
	return &stream{client: c, opts: o, filter: pods, ledger: l, away: time.Now(), onReached: func() {}}, nil
}

// run connects again and again, until the caller has enough, ctx ends or trying again
// is in vain.
func (s *stream) run(ctx context.Context, yield func(Update) bool) error {
	for {
		err := s.connection(ctx, yield)
		switch {
		case errors.Is(err, errEnough):
			return err
		case ctx.Err() != nil:
			return context.Cause(ctx)
		}
		s.lost(err)
		restarting := s.found && misplaced(err) && time.Since(s.away) < restartTime
		if lasting(err) && !restarting {
			return err
		}
		if left, bounded := s.left(); bounded && left <= 0 {
			return err
		}
		timer := time.NewTimer(s.pause())
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		}
	}
}

// left is how much time is left to reach the daemon at all.
func (s *stream) left() (left time.Duration, bounded bool) {
	if s.opts.ConnectWithin <= 0 || s.found {
		return 0, false
	}
	return s.opts.ConnectWithin - time.Since(s.away), true
}

// pause is how long to wait before the next attempt.
func (s *stream) pause() time.Duration {
	pause := s.pauses.next()
	if left, bounded := s.left(); bounded {
		pause = min(pause, left)
	}
	return pause
}

// lost takes in that there is no connection, and says so once.
func (s *stream) lost(err error) {
	if s.connected && time.Since(s.since) > backoffMost {
		s.pauses.worked()
	}
	// Where time is bounded the error says it, at the end.
	if _, bounded := s.left(); !bounded && (s.connected || !s.tried) {
		s.client.log.Warn("no connection to hybrid-pleg; trying until there is one", "err", err)
	}
	if s.away.IsZero() {
		s.away = time.Now()
	}
	s.connected, s.tried = false, true
	s.opts.OnConnection(Connection{Err: err, Info: s.info})
}

// reached takes in that the daemon streams.
func (s *stream) reached() {
	if s.connected {
		return
	}
	s.onReached()
	if s.tried {
		s.client.log.Info("connected to hybrid-pleg", "address", s.client.address, "epoch", s.info.Epoch)
	}
	s.connected, s.tried, s.found, s.since, s.away = true, true, true, time.Now(), time.Time{}
	s.opts.OnConnection(Connection{Info: s.info})
}

// connection connects and hands on what comes, for as long as that lasts. The error
// says why it ended, which is never well.
func (s *stream) connection(ctx context.Context, yield func(Update) bool) error {
	l, err := s.client.open(true)
	if err != nil {
		return err
	}
	defer l.conn.Close()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if left, bounded := s.left(); bounded {
		timer := time.AfterFunc(max(left, leastAttempt), func() {
			cancel(fmt.Errorf("%w at %s in time", ErrUnavailable, s.client.address))
		})
		defer timer.Stop()
		s.onReached = func() { timer.Stop() }
	}
	if err := s.begin(ctx, l); err != nil {
		return s.client.explain(ctx, err, l.lastDial())
	}
	since := s.ledger.token
	for {
		err := s.watch(ctx, l, since, yield)
		if !errors.Is(err, errJournal) {
			return err
		}
		if since, err = s.past(ctx, l); err != nil {
			return s.client.explain(ctx, err, l.lastDial())
		}
	}
}

// begin asks the daemon how it is, and what the caller knows already if that is not
// known here. This and all watches are of one connection, and so of one process.
func (s *stream) begin(ctx context.Context, l *line) error {
	info, err := l.info(ctx)
	if err != nil {
		return err
	}
	s.info = info
	var base []event.PodStatus
	if s.ledger.needsBase() {
		snapshot, err := l.list(ctx, s.filter)
		if err != nil {
			return err
		}
		base = snapshot.Pods
	}
	s.ledger.connect(base, info.Unhealthy == "")
	return nil
}

// past returns from where to watch for what the journal has.
func (s *stream) past(ctx context.Context, l *line) (merge.Token, error) {
	info, err := l.info(ctx)
	if err != nil {
		return merge.Token{}, err
	}
	oldest, err := merge.ParseToken(info.OldestToken)
	if err != nil {
		return merge.Token{}, fmt.Errorf("%w: %w", errProtocol, err)
	}
	return s.ledger.readJournal(oldest), nil
}

// watch watches from a place and hands on what comes, until that ends or the ledger
// wants to go back, which is errJournal.
func (s *stream) watch(ctx context.Context, l *line, since merge.Token, yield func(Update) bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w, err := l.api.Watch(ctx, &hybridplegv1.WatchRequest{Since: since.String(), Filter: s.filter})
	if err != nil {
		return s.client.explain(ctx, err, l.lastDial())
	}
	for {
		m, err := w.Recv()
		if err != nil {
			return s.client.explain(ctx, err, l.lastDial())
		}
		if err := s.take(m, yield); err != nil {
			return err
		}
	}
}

// take takes one message and hands on what it makes.
func (s *stream) take(m *hybridplegv1.WatchResponse, yield func(Update) bool) error {
	u, err := readMessage(m)
	if err != nil || u.Kind == 0 {
		return err
	}
	updates, err := s.ledger.take(u)
	switch {
	case errors.Is(err, errNotReady):
		return fmt.Errorf("%w: %s", err, s.info.Unhealthy)
	case err != nil:
		return err
	}
	s.reached()
	for _, u := range updates {
		if !yield(u) {
			return errEnough
		}
	}
	if s.ledger.lossy {
		s.ledger.lossy = false
		s.client.log.Warn("the stream's place was lost, and hybrid-pleg's journal is not seen to reach back to it: what came and went since may be missing",
			"now", s.ledger.token)
	}
	if s.ledger.wantsJournal() {
		return errJournal
	}
	return nil
}

// readMessage returns the update that a message carries, with KindReset for Expired;
// of no kind where it is to be passed over.
func readMessage(m *hybridplegv1.WatchResponse) (u Update, err error) {
	if m.GetToken() != "" {
		if u.Token, err = merge.ParseToken(m.GetToken()); err != nil {
			return Update{}, fmt.Errorf("%w: %w", errProtocol, err)
		}
	}
	switch item := m.GetItem().(type) {
	case *hybridplegv1.WatchResponse_Pod:
		var p event.PodStatus
		if p, err = wire.ToPod(item.Pod); err != nil {
			return Update{}, fmt.Errorf("%w: %w", errProtocol, err)
		}
		u.Kind, u.Pod = KindPod, &p
	case *hybridplegv1.WatchResponse_Synced:
		u.Kind = KindSynced
	case *hybridplegv1.WatchResponse_Event:
		e, err := wire.ToEvent(item.Event)
		switch {
		case errors.Is(err, wire.ErrUnknownType): // a newer daemon's
			u.Kind = KindBookmark
		case err != nil:
			return Update{}, fmt.Errorf("%w: %w", errProtocol, err)
		default:
			u.Kind, u.Event = KindEvent, &e
		}
	case *hybridplegv1.WatchResponse_Expired:
		u = Update{Kind: KindReset}
	case *hybridplegv1.WatchResponse_Bookmark:
		u.Kind = KindBookmark
	default: // a newer daemon's
	}
	return u, nil
}
