package truth

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/hybrid-pleg/hybrid-pleg/internal/embedded"
	"github.com/hybrid-pleg/hybrid-pleg/internal/experiment/clock"
)

// record is a line of an account.
type record struct {
	ID   string          `json:"id"`
	What embedded.Moment `json:"what"`
	At   int64           `json:"at"`
}

// Account writes what befalls the containers of an embedded runtime as lines, for a
// [ReadAccount] in another process. It never holds up the runtime. Close it when the
// runtime is.
type Account struct {
	mu      sync.Mutex
	waiting []record
	closed  bool
	more    *sync.Cond
	done    chan error
}

// NewAccount returns an account that writes to w.
func NewAccount(w io.Writer) *Account {
	a := &Account{done: make(chan error, 1)}
	a.more = sync.NewCond(&a.mu)
	go func() { a.done <- a.write(w) }()
	return a
}

// Note is for embedded.Options.Account.
func (a *Account) Note(id string, what embedded.Moment) {
	at := clock.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.waiting = append(a.waiting, record{id, what, at})
	a.more.Signal()
}

func (a *Account) write(w io.Writer) error {
	buf := bufio.NewWriter(w)
	enc := json.NewEncoder(buf)
	for {
		a.mu.Lock()
		for len(a.waiting) == 0 && !a.closed {
			a.more.Wait()
		}
		batch, closed := a.waiting, a.closed
		a.waiting = nil
		a.mu.Unlock()
		for _, r := range batch {
			if err := enc.Encode(r); err != nil {
				return err
			}
		}
		if err := buf.Flush(); err != nil {
			return err
		}
		if closed && len(batch) == 0 {
			return nil
		}
	}
}

// Close writes what is left.
func (a *Account) Close() error {
	a.mu.Lock()
	a.closed = true
	a.more.Signal()
	a.mu.Unlock()
	return <-a.done
}

// ReadAccount writes an account into the ledger until it ends.
func ReadAccount(r io.Reader, ledger *Ledger) error {
	dec := json.NewDecoder(r)
	for {
		var rec record
		err := dec.Decode(&rec)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("the embedded runtime's account: %w", err)
		}
		if what, ok := fromEmbedded(rec.What); ok {
			ledger.Note(rec.ID, what, rec.At)
		}
	}
}

func fromEmbedded(m embedded.Moment) (Moment, bool) {
	what, ok := map[embedded.Moment]Moment{
		embedded.Began: Began, embedded.Ended: Ended,
		embedded.ShownCreated: ShownCreated, embedded.ShownRunning: ShownRunning,
		embedded.ShownExited: ShownExited, embedded.ShownRemoved: ShownRemoved,
	}[m]
	return what, ok
}
