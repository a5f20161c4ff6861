package client

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/merge"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/relist"
)

// slow is a caller that sees nothing of what the daemon tells until it is too late for
// the journal.
type slow struct {
	t      *testing.T
	daemon daemon
	ledger *ledger
	link   *link
	// reading is called when the journal is about to be read, reads how often it was.
	reading func()
	reads   int
}

// newSlow returns one that knows what was told before.
func newSlow(t *testing.T, journal int, before ...relist.Change) *slow {
	t.Helper()
	log, err := merge.New(merge.Options{JournalEvents: journal})
	if err != nil {
		t.Fatal(err)
	}
	s := &slow{t: t, daemon: daemon{log: log, ready: true}, reading: func() {}}
	s.ledger = newLedger(merge.Token{}, func(*event.Event) bool { return true }, time.Now)
	s.link = connect(t, s.ledger, &s.daemon)
	t.Cleanup(func() { s.link.watcher.Close() })
	log.Publish(before)
	s.updates()
	return s
}

// updates returns what the caller is told until nothing more comes.
func (s *slow) updates() []string {
	s.t.Helper()
	var out []string
	for {
		u, ok := s.link.next(s.t)
		if !ok {
			return out
		}
		updates, err := s.ledger.take(u)
		if err != nil {
			s.t.Fatal(err)
		}
		for _, u := range updates {
			out = append(out, tale(u))
		}
		if s.ledger.wantsJournal() {
			s.reads++
			oldest := s.daemon.log.Stats().OldestToken
			s.reading()
			s.link.watch(s.t, &s.daemon, s.ledger.readJournal(oldest))
		}
	}
}

func tale(u Update) string {
	if u.Kind != KindEvent {
		return u.Kind.String()
	}
	out := u.Event.Container.ID + " " + string(u.Event.Type)
	if u.Event.Detection.FoundBy == FoundBySnapshot {
		out += " by snapshot"
	}
	if u.Event.Inferred {
		out += ", inferred"
	}
	return out
}

// of makes a change of a container, whose attempts have the IDs a0, a1 and so on.
func of(id string, typ event.Type) relist.Change {
	to := map[event.Type]event.State{
		event.ContainerCreated: event.StateCreated, event.ContainerStarted: event.StateRunning, event.PodSync: event.StateRunning,
		event.ContainerDied: event.StateExited, event.ContainerRemoved: event.StateNonExistent,
	}[typ]
	return relist.Change{
		Type: typ, To: to, Pod: event.Pod{UID: "p"}, Sandbox: &event.Sandbox{ID: "s"},
		Container: &event.Container{ID: id, Name: id[:1], Attempt: uint32(id[1] - '0')},
	}
}

func life(id string) []relist.Change {
	return []relist.Change{
		of(id, event.ContainerCreated), of(id, event.ContainerStarted), of(id, event.ContainerDied), of(id, event.ContainerRemoved),
	}
}

// TestBeyondTheJournal has journals that are too short for all that happened. What is
// in them is told as the daemon told it; what must have been before it comes before.
func TestBeyondTheJournal(t *testing.T) {
	tests := []struct {
		name    string
		journal int
		before  []relist.Change
		told    []relist.Change
		want    []string
	}{
		{"one attempt ends before the next begins", 2, life("a0")[:2],
			slices.Concat(life("a0")[2:], life("a1")[:2]),
			[]string{"a0 ContainerDied by snapshot, inferred", "a0 ContainerRemoved by snapshot", "a1 ContainerCreated", "a1 ContainerStarted"}},
		{"the end of an unknown one", 2, nil, life("a0"),
			[]string{"a0 ContainerStarted by snapshot", "a0 ContainerDied", "a0 ContainerRemoved"}},
		{"the removal of an unknown one", 1, nil, life("a0"),
			[]string{"a0 ContainerStarted by snapshot, inferred", "a0 ContainerDied by snapshot", "a0 ContainerRemoved"}},
		{"the removal of a known one", 1, life("a0")[:2], append(life("a1")[:2], life("a0")[2:]...),
			[]string{"a0 ContainerDied by snapshot", "a1 ContainerStarted by snapshot", "a0 ContainerRemoved"}},
		{"the start of one known as created", 1, life("a0")[:1], append(life("a1")[:2], life("a0")[1]),
			[]string{"a1 ContainerStarted by snapshot", "a0 ContainerStarted"}},
		{"details of an unknown one", 1, nil, append(life("a0")[:2], of("a0", event.PodSync)),
			[]string{"a0 ContainerStarted by snapshot", "a0 PodSync"}},
		{"all of it", 4, nil, slices.Concat(life("a0"), life("a1")),
			[]string{"a1 ContainerCreated", "a1 ContainerStarted", "a1 ContainerDied", "a1 ContainerRemoved"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newSlow(t, tt.journal, tt.before...)
			s.daemon.log.Publish(tt.told)
			if got, want := s.updates(), slices.Concat(tt.want, []string{"bookmark"}); !slices.Equal(got, want) {
				t.Errorf("told are\n%q, want\n%q", got, want)
			}
			if !s.ledger.lossy {
				t.Error("that something may be missing is not said")
			}
			s.daemon.log.Publish(life("b0")[:1])
			if got := s.updates(); !slices.Equal(got, []string{"b0 ContainerCreated"}) {
				t.Errorf("afterwards told are %q", got)
			}
		})
	}
}

// TestJournalMovesOn has a journal that is never the same when it is read as when it
// was to be read. In the end the snapshot alone must do.
func TestJournalMovesOn(t *testing.T) {
	for name, n := range map[string]int{"by less than the snapshot": 1, "by more than the snapshot": 3} {
		t.Run(name, func(t *testing.T) {
			s := newSlow(t, 2)
			made := byte('0')
			begin := func(n int) {
				for range n {
					s.daemon.log.Publish(life("a" + string(made))[:1])
					made++
				}
			}
			begin(3)
			s.reading = func() { begin(n) }
			want := map[string]int{"bookmark": 1}
			got := map[string]int{}
			for _, told := range s.updates() {
				got[told]++
			}
			for id := byte('0'); id < made; id++ {
				want["a"+string(id)+" ContainerCreated by snapshot"] = 1
			}
			for told, n := range want {
				if got[told] != n {
					t.Errorf("%q is told %d times, want %d; told are %v", told, got[told], n, got)
				}
			}
			if len(got) != len(want) || s.reads != journalTries || !s.ledger.lossy {
				t.Errorf("told are %v, the journal was read %d times, something missing: %v", got, s.reads, s.ledger.lossy)
			}
		})
	}
}

func TestPassed(t *testing.T) {
	var p passed
	p.note(merge.Token{Epoch: "a", Sequence: 5})
	p.note(merge.Token{Epoch: "b", Sequence: 7})
	p.note(merge.Token{Epoch: "a", Sequence: 3})
	for token, want := range map[merge.Token]bool{
		{Epoch: "a", Sequence: 5}: true, {Epoch: "a", Sequence: 6}: false, {Epoch: "b", Sequence: 0}: true, {Epoch: "c", Sequence: 0}: false,
	} {
		if got := p.has(token); got != want {
			t.Errorf("past %s: %v", token, got)
		}
	}
	for i := range maxPassed {
		p.note(merge.Token{Epoch: fmt.Sprint("x", i)})
	}
	if len(p) != maxPassed || p.has(merge.Token{Epoch: "b", Sequence: 1}) {
		t.Errorf("%d epochs are remembered, the oldest too: %v", len(p), p.has(merge.Token{Epoch: "b", Sequence: 1}))
	}
}
