package state

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/merge"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/relist"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds every wait for what comes far sooner.
const patience = time.Minute

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("after %s still not: %s", patience, what)
		}
		<-time.After(time.Millisecond)
	}
}

func open(t testing.TB, o Options) *Keeper {
	t.Helper()
	k, err := Open(o)
	check(t, err)
	return k
}

// logOf makes a log that goes on where the keeper's directory ends.
func logOf(t testing.TB, k *Keeper, o merge.Options) *merge.Log {
	t.Helper()
	o.Restore = k.Restored()
	l, err := merge.New(o)
	check(t, err)
	return l
}

// run keeps the log until stop is called or the test ends.
func run(t testing.TB, k *Keeper, l *merge.Log) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- k.Run(ctx, l) }()
	stop = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	t.Cleanup(func() { _ = stop() })
	return stop
}

// node makes the changes of a made-up node: containers that begin, run and end.
type node struct {
	rng  *rand.Rand
	at   int
	live map[string]int // container → the next step
}

func newNode(seed uint64) *node {
	return &node{rng: rand.New(rand.NewPCG(seed, 3)), live: map[string]int{}}
}

func (n *node) next() []relist.Change {
	steps := []event.Type{event.ContainerCreated, event.ContainerStarted, event.ContainerDied, event.ContainerRemoved}
	if len(n.live) < 20 {
		n.at++
		n.live[fmt.Sprint("c", n.at)] = 0
	}
	ids := make([]string, 0, len(n.live))
	for id := range n.live {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	id := ids[n.rng.IntN(len(ids))]
	step := n.live[id]
	n.live[id]++
	if step == len(steps)-1 {
		delete(n.live, id)
	}
	code := int32(step)
	uid := fmt.Sprint("pod", n.rng.IntN(5))
	return []relist.Change{{
		Type:      steps[step],
		Pod:       event.Pod{UID: uid, Namespace: "ns", Name: "name <&> of " + uid},
		Sandbox:   &event.Sandbox{ID: "sandbox-" + uid, Labels: map[string]string{"app": uid, "tier": "x"}},
		Container: &event.Container{ID: id, Name: "main", Image: "image"},
		CreatedAt: time.Unix(1_700_000_000, int64(step)).UTC(),
		Status:    &event.Status{ExitCode: &code, StartedAt: time.Unix(1_700_000_001, 5).UTC()},
		Detection: event.Detection{FoundBy: event.FoundEarly, ObservedAt: time.Unix(1_700_000_002, 6).UTC()},
	}}
}

func publish(l *merge.Log, n *node, times int) {
	for range times {
		l.Publish(n.next())
	}
}

// text is a state in a form that can be compared.
func text(t testing.TB, s *merge.State) string {
	t.Helper()
	c := *s
	c.Items = slices.Clone(s.Items)
	slices.SortFunc(c.Items, func(a, b merge.ItemState) int { return strings.Compare(a.Key().ID, b.Key().ID) })
	data, err := json.Marshal(&c)
	check(t, err)
	return string(data)
}

// podsOf is a log's snapshot and the sequence it is at, in a form that can be
// compared.
func podsOf(t testing.TB, l *merge.Log) string {
	t.Helper()
	data, err := json.Marshal(l.Snapshot().Pods)
	check(t, err)
	return fmt.Sprint(l.Token().Sequence, " ", string(data))
}

// shared writes one log to a file by hand, a delta for each call of keep.
type shared struct {
	t    *testing.T
	log  *merge.Log
	rec  *merge.Recorder
	file *file
}

func newShared(t *testing.T, dir string, l *merge.Log, lim limits) *shared {
	t.Helper()
	rec, err := l.Record()
	check(t, err)
	f := &file{dir: dir, limits: lim, now: time.Now}
	t.Cleanup(f.close)
	return &shared{t: t, log: l, rec: rec, file: f}
}

func (s *shared) keep() {
	s.t.Helper()
	if d, ok := s.rec.Drain(); ok {
		check(s.t, s.file.append(&d))
		return
	}
	all := s.rec.Export()
	check(s.t, s.file.rewrite(&all))
}

// export is what the log holds, without ending what is followed.
func (s *shared) export() *merge.State {
	s.t.Helper()
	s.keep()
	all := s.rec.Export()
	return &all
}

// read loads a copy of the file, which is locked itself.
func (s *shared) read() *merge.State {
	s.t.Helper()
	data, err := os.ReadFile(s.file.path())
	check(s.t, err)
	copied := filepath.Join(s.t.TempDir(), fileName)
	check(s.t, os.WriteFile(copied, data, 0o600))
	got, err := load(copied, time.Hour, time.Now())
	check(s.t, err)
	return got
}

var wide = limits{events: merge.DefaultJournalEvents, bytes: DefaultJournalBytes, age: DefaultJournalAge}

// safeBuffer takes a log that is read beside.
type safeBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *safeBuffer) count(text string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Count(b.buf.String(), text)
}

func logger() (*slog.Logger, *safeBuffer) {
	b := &safeBuffer{}
	return slog.New(slog.NewTextHandler(b, nil)), b
}

// failing is a storage that can be made to fail.
type failing struct {
	storage
	mu       sync.Mutex
	err      error
	rewrites int
	appends  int
}

func (f *failing) set(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
}

func (f *failing) counts() (rewrites, appends int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.rewrites, f.appends
}

func (f *failing) rewrite(s *merge.State) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rewrites++
	if f.err != nil {
		return f.err
	}
	return f.storage.rewrite(s)
}

func (f *failing) append(d *merge.Delta) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.appends++
	if f.err != nil {
		return f.err
	}
	return f.storage.append(d)
}
