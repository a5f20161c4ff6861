package trigger

import (
	"sync"
	"time"
)

const (
	// mailboxSize bounds the signals waiting for the scheduler. It takes them all at
	// once, so this many come up only when it has been held up for seconds.
	mailboxSize = 16384
	// mailboxRequests bounds the pods that looks were asked for; beyond, one at
	// everything is asked for instead.
	mailboxRequests = 4096
)

// mailbox takes what happens, from any goroutine and without blocking, until the
// scheduler's goroutine collects it.
type mailbox struct {
	// bell has room for one ring.
	bell chan struct{}

	mu   sync.Mutex
	mail mail
}

// mail is what has been collected.
type mail struct {
	signals []Signal
	// states are the last two of each source: whether it went down in between
	// matters as well as whether it is up.
	states map[SourceName][]bool
	// requests tell for each pod, or "" for all, whether it is to be reinspected.
	requests map[string]bool
	looked   []Looked
}

func newMailbox() *mailbox { return &mailbox{bell: make(chan struct{}, 1)} }

func (m *mailbox) put(f func(*mail)) {
	m.mu.Lock()
	f(&m.mail)
	m.mu.Unlock()
	select {
	case m.bell <- struct{}{}:
	default:
	}
}

// signal puts a signal in, or what remains of it when the box is full: that some
// were lost.
func (m *mailbox) signal(sig Signal) {
	m.put(func(mail *mail) {
		switch n := len(mail.signals); {
		case n < mailboxSize:
			mail.signals = append(mail.signals, sig)
		case n == mailboxSize:
			mail.signals = append(mail.signals, Signal{Source: sig.Source, Kind: KindLost, At: time.Now()})
		}
	})
}

func (m *mailbox) state(name SourceName, up bool) {
	m.put(func(mail *mail) {
		s := mail.states[name]
		if n := len(s); n > 0 && s[n-1] == up {
			return
		}
		if s = append(s, up); len(s) > 2 {
			s = s[len(s)-2:]
		}
		if mail.states == nil {
			mail.states = make(map[SourceName][]bool)
		}
		mail.states[name] = s
	})
}

func (m *mailbox) request(uid string, reinspect bool) {
	m.put(func(mail *mail) {
		if mail.requests == nil {
			mail.requests = make(map[string]bool)
		}
		if _, known := mail.requests[uid]; !known && len(mail.requests) >= mailboxRequests {
			uid, reinspect = "", false
		}
		mail.requests[uid] = mail.requests[uid] || reinspect
	})
}

func (m *mailbox) looked(res Looked) {
	m.put(func(mail *mail) { mail.looked = append(mail.looked, res) })
}

// collect takes everything out.
func (m *mailbox) collect() mail {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := m.mail
	m.mail = mail{}
	return out
}
