package client

import (
	"errors"
	"fmt"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/merge"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/relist"
)

// errNotReady says that a daemon's snapshot must not be compared with what the caller
// knows: the daemon has not looked at everything itself yet, so that what it lacks
// need not be gone. The stream is begun anew after it.
var errNotReady = errors.New("the daemon can't tell yet what has changed")

// errProtocol marks what the API does not allow a daemon to send. The stream is
// begun anew after it.
var errProtocol = errors.New("the daemon breaks the protocol")

// bookmarkEvery is after how many events that are kept from the caller it gets a
// bookmark.
const bookmarkEvery = 64

// ledger decides what a stream tells: it takes what the daemon sends, one update
// after another and over any number of connections, and returns what to hand on. It
// is a state machine without goroutines or clocks.
//
// What the caller knows is kept in a [State], which is a merge.Log: its law keeps
// anything from being told twice. What a snapshot says beyond that, [relist.Compare]
// finds.
type ledger struct {
	wanted func(*event.Event) bool
	now    func() time.Time

	// told is what the caller knows. It is complete once whole is true: a caller that
	// came with a token knows more, which base then brings.
	told  *State
	whole bool
	base  []event.PodStatus
	// ready: the connection's daemon knew all pods when the connection began.
	ready bool
	// token is the place in the daemon's stream up to which all was dealt with; zero:
	// ask for a snapshot.
	token merge.Token

	// snapshot is the one being received, while inSnapshot.
	snapshot   []event.PodStatus
	inSnapshot bool

	skipped int // events since the last token that the caller got
}

func newLedger(since merge.Token, wanted func(*event.Event) bool, now func() time.Time) *ledger {
	return &ledger{token: since, wanted: wanted, now: now, told: NewState()}
}

// needsBase reports whether connect is to be given the pods as the daemon had them a
// moment ago.
func (l *ledger) needsBase() bool { return !l.whole && !l.token.IsZero() }

// connect begins a connection, on which the daemon is asked for what comes after
// l.token. What the one before left unfinished is dropped. ready says whether the
// daemon is healthy, which it is not before it has looked at everything.
func (l *ledger) connect(base []event.PodStatus, ready bool) {
	l.snapshot, l.inSnapshot = nil, l.token.IsZero()
	l.base, l.ready = base, ready
}

// take takes what the daemon sends, with KindReset for its Expired, and returns what
// to hand on. The error is errNotReady or wraps errProtocol; nothing has changed then.
func (l *ledger) take(u Update) ([]Update, error) {
	switch {
	case u.Kind == KindReset && l.whole && !l.ready:
		return nil, errNotReady
	case u.Kind == KindReset:
		l.snapshot, l.inSnapshot = nil, true
		return nil, nil
	case u.Kind == KindPod && l.inSnapshot:
		l.snapshot = append(l.snapshot, *u.Pod)
		return nil, nil
	case u.Kind == KindPod:
		return nil, fmt.Errorf("%w: a pod outside of a snapshot", errProtocol)
	case u.Token.IsZero():
		return nil, fmt.Errorf("%w: a %s without a token", errProtocol, u.Kind)
	case u.Kind == KindSynced && l.inSnapshot:
		return l.takeSnapshot(u.Token), nil
	case u.Kind == KindSynced:
		return l.takeSynced(u.Token), nil
	case l.inSnapshot:
		return nil, fmt.Errorf("%w: a %s within a snapshot", errProtocol, u.Kind)
	case u.Kind == KindEvent:
		return l.takeEvent(u), nil
	default:
		return l.bookmark(u.Token), nil
	}
}

// takeEvent hands an event on that the caller does not know and wants.
func (l *ledger) takeEvent(u Update) []Update {
	e := u.Event
	before := l.token
	l.token = u.Token
	if e.Epoch == before.Epoch && e.Sequence <= before.Sequence {
		l.token = before
		return nil
	}
	if !l.told.tell(e) || !l.wanted(e) {
		return l.skip()
	}
	l.skipped = 0
	return []Update{u}
}

// skip takes in that the token moved and the caller got nothing.
func (l *ledger) skip() []Update {
	l.skipped++
	if l.skipped < bookmarkEvery {
		return nil
	}
	l.skipped = 0
	return []Update{{Kind: KindBookmark, Token: l.token}}
}

func (l *ledger) bookmark(token merge.Token) []Update {
	if token == l.token && l.skipped == 0 {
		return nil
	}
	l.token, l.skipped = token, 0
	return []Update{{Kind: KindBookmark, Token: token}}
}

// takeSynced takes the end of the past, after a connection that went on from a token.
func (l *ledger) takeSynced(token merge.Token) []Update {
	if l.whole {
		return l.bookmark(token)
	}
	l.told.adopt(l.base)
	l.base, l.whole = nil, true
	l.token, l.skipped = token, 0
	return []Update{{Kind: KindSynced, Token: token}}
}

// takeSnapshot takes the end of a snapshot: of the caller's first, or of one that
// came because its place could not be gone on from.
func (l *ledger) takeSnapshot(token merge.Token) []Update {
	pods := l.snapshot
	l.snapshot, l.inSnapshot, l.base = nil, false, nil
	if !l.whole {
		return l.reset(pods, token)
	}
	var out []Update
	now := l.now()
	for _, pc := range relist.Compare(l.told.Pods(), pods, now) {
		for i := range pc.Changes {
			pc.Changes[i].Detection.FoundBy = FoundBySnapshot
		}
		for _, e := range l.told.log.Publish(pc.Changes) {
			e.Epoch, e.Sequence = token.Epoch, 0
			if e.Type == event.PodSync {
				e.ID = e.Container.ID + "/" + string(e.Type) + "/" + token.String()
			}
			if l.wanted(&e) {
				// With the old token: going on from it leads here again.
				out = append(out, Update{Kind: KindEvent, Event: &e, Token: l.token})
			}
		}
	}
	return append(out, l.bookmark(token)...)
}

// reset hands a whole snapshot on to a caller of whom nothing is known.
func (l *ledger) reset(pods []event.PodStatus, token merge.Token) []Update {
	out := make([]Update, 0, len(pods)+2)
	out = append(out, Update{Kind: KindReset})
	for i := range pods {
		out = append(out, Update{Kind: KindPod, Pod: &pods[i]})
	}
	l.told.reset()
	l.told.adopt(pods)
	l.whole, l.token, l.skipped = true, token, 0
	return append(out, Update{Kind: KindSynced, Token: token})
}
