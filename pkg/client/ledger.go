package client

import (
	"errors"
	"fmt"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/merge"
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
// anything from being told twice. Where its place is lost, the daemon's journal and a
// snapshot say what it is still to be told: see [gap].
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
	// passed is that place in each numbering of events, and began the number that the
	// last event had when the caller's knowledge became whole.
	passed passed
	began  uint64

	// snapshot is the one being received, while inSnapshot.
	snapshot   []event.PodStatus
	inSnapshot bool
	// gap is what the journal is being read for; nil while it is not. tries is how
	// often it was.
	gap   *gap
	tries int
	// lossy: the last gap was wider than the journal.
	lossy bool

	skipped int // events since the last token that the caller got
}

func newLedger(since merge.Token, wanted func(*event.Event) bool, now func() time.Time) *ledger {
	l := &ledger{wanted: wanted, now: now, told: NewState()}
	if !since.IsZero() {
		l.moveTo(since)
	}
	return l
}

// needsBase reports whether connect is to be given the pods as the daemon had them a
// moment ago.
func (l *ledger) needsBase() bool { return !l.whole && !l.token.IsZero() }

// connect begins a connection, on which the daemon is asked for what comes after
// l.token. What the one before left unfinished is dropped. ready says whether the
// daemon is healthy, which it is not before it has looked at everything.
func (l *ledger) connect(base []event.PodStatus, ready bool) {
	l.snapshot, l.inSnapshot = nil, l.token.IsZero()
	l.gap, l.tries = nil, 0
	l.base, l.ready = base, ready
}

// take takes what the daemon sends, with KindReset for its Expired, and returns what
// to hand on. The error is errNotReady or wraps errProtocol; nothing has changed then.
func (l *ledger) take(u Update) ([]Update, error) {
	switch {
	case u.Kind == KindReset && l.whole && !l.ready:
		return nil, errNotReady
	case u.Kind == KindReset:
		l.snapshot, l.inSnapshot, l.gap = nil, true, nil
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
	case l.inSnapshot:
		return nil, fmt.Errorf("%w: a %s within a snapshot", errProtocol, u.Kind)
	case l.gap != nil:
		return l.takePast(u), nil
	default:
		return l.takeNext(u), nil
	}
}

// takeNext takes what comes after l.token.
func (l *ledger) takeNext(u Update) []Update {
	switch u.Kind {
	case KindSynced:
		return l.takeSynced(u.Token)
	case KindEvent:
		return l.takeEvent(u)
	default:
		return l.bookmark(u.Token)
	}
}

// moveTo takes in that all up to a place is dealt with.
func (l *ledger) moveTo(token merge.Token) {
	l.token = token
	l.passed.note(token)
}

// takeEvent hands an event on that the caller does not know and wants.
func (l *ledger) takeEvent(u Update) []Update {
	e := u.Event
	if l.passed.has(merge.Token{Epoch: e.Epoch, Sequence: e.Sequence}) {
		return nil
	}
	l.moveTo(u.Token)
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
	l.moveTo(token)
	l.skipped = 0
	return []Update{{Kind: KindBookmark, Token: token}}
}

// takeSynced takes the end of the past, after a connection that went on from a token.
func (l *ledger) takeSynced(token merge.Token) []Update {
	if l.whole {
		return l.bookmark(token)
	}
	l.told.adopt(l.base)
	l.base = nil
	l.begin(token)
	return []Update{{Kind: KindSynced, Token: token}}
}

// begin takes in that what the caller knows is known here, as of token.
func (l *ledger) begin(token merge.Token) {
	l.moveTo(token)
	l.whole, l.began, l.skipped = true, token.Sequence, 0
}

// takeSnapshot takes the end of a snapshot: of the caller's first, or of one that
// came because its place could not be gone on from.
func (l *ledger) takeSnapshot(token merge.Token) []Update {
	g := &gap{pods: l.snapshot, end: token}
	l.snapshot, l.inSnapshot, l.base = nil, false, nil
	switch {
	case !l.whole:
		return l.reset(g.pods, token)
	case l.tries < journalTries:
		l.gap = g // wantsJournal
		return nil
	default:
		return l.closeGap(g)
	}
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
	l.passed = nil
	l.begin(token)
	return append(out, Update{Kind: KindSynced, Token: token})
}
