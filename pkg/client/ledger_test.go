package client

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/merge"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/relist"
)

// world is a node: pods whose containers begin and end. Nothing goes back.
type world struct {
	rng  *rand.Rand
	made int
	now  time.Time
	pods []event.PodStatus
}

func (w *world) step() {
	w.now = w.now.Add(time.Second)
	if len(w.pods) < 3 || len(w.pods) < 8 && w.rng.IntN(4) == 0 {
		w.made++
		w.pods = append(w.pods, event.PodStatus{
			Pod:       event.Pod{UID: fmt.Sprint("p", w.made), Namespace: fmt.Sprint("ns", w.made%2), Name: fmt.Sprint("n", w.made)},
			Sandboxes: []event.SandboxStatus{{Sandbox: event.Sandbox{ID: fmt.Sprint("s", w.made)}, State: event.StateRunning, CreatedAt: w.now}},
		})
	}
	i := w.rng.IntN(len(w.pods))
	p := &w.pods[i]
	// What others have seen of it stays as it is.
	p.Containers, p.Sandboxes = slices.Clone(p.Containers), slices.Clone(p.Sandboxes)
	switch n := w.rng.IntN(8); {
	case n < 3 && p.Sandboxes[0].State == event.StateRunning:
		w.made++
		p.Containers = append(p.Containers, event.ContainerStatus{
			Container: event.Container{ID: fmt.Sprint("c", w.made), Name: fmt.Sprint("main", w.rng.IntN(2)), Attempt: uint32(w.made)},
			SandboxID: p.Sandboxes[0].Sandbox.ID, State: event.StateCreated, CreatedAt: w.now,
		})
	case n < 6 && len(p.Containers) > 0:
		c := &p.Containers[w.rng.IntN(len(p.Containers))]
		switch c.State {
		case event.StateCreated:
			c.State, c.Status = event.StateRunning, &event.Status{StartedAt: w.now, Pid: w.made}
		case event.StateRunning:
			code := int32(w.made)
			c.State, c.Status = event.StateExited, &event.Status{FinishedAt: w.now, ExitCode: &code}
		case event.StateExited: // how it ended is learned later
			c.Status = &event.Status{FinishedAt: w.now, ExitCode: c.Status.ExitCode, Reason: "Error"}
		}
	case n == 6 && len(p.Containers) > 0:
		p.Containers = slices.Delete(p.Containers, 0, 1)
	case n == 7:
		if p.Sandboxes[0].State == event.StateRunning {
			p.Sandboxes[0].State = event.StateExited
		} else {
			w.pods = slices.Delete(w.pods, i, i+1)
		}
	}
}

// daemon looks at a world and tells; it can be killed.
type daemon struct {
	world   *world
	log     *merge.Log
	ready   bool
	written [][]relist.Change // all that it told, pod by pod
}

func (d *daemon) look() {
	for _, pc := range relist.Compare(d.log.Snapshot().Pods, d.world.pods, d.world.now) {
		d.log.Publish(pc.Changes)
		d.written = append(d.written, pc.Changes)
	}
	d.ready = true
}

// restart starts it again with what it told but for the last `lose` writings; with
// none of it if that is more than there is. It will tell again what it lost.
func (d *daemon) restart(t *testing.T, lose int) {
	keep := max(0, len(d.written)-lose)
	*d = daemon{world: d.world, written: d.written[:keep], log: newLog(t)}
	for _, changes := range d.written {
		d.log.Publish(changes)
	}
}

func newLog(t *testing.T) *merge.Log {
	t.Helper()
	l, err := merge.New(merge.Options{JournalEvents: 12})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// caller is who deals with updates, and judges them. It keeps the token together with
// what it made of the updates.
type caller struct {
	since  merge.Token
	pods   map[string]event.State // by item: what it was last told
	done   map[string]bool        // by event ID, since the last reset
	state  *State
	synced bool
	resets int
	events int
	// inferred are the events that no daemon told.
	inferred int
}

func (c *caller) deal(u Update) error {
	c.state.Apply(u)
	switch u.Kind {
	case KindReset:
		c.pods, c.done, c.synced = map[string]event.State{}, map[string]bool{}, false
		c.resets++
	case KindPod:
		if c.synced {
			return errors.New("a pod after the synced")
		}
		for _, s := range u.Pod.Sandboxes {
			c.pods[s.Sandbox.ID] = s.State
		}
		for _, s := range u.Pod.Containers {
			c.pods[s.Container.ID] = s.State
		}
	case KindSynced:
		if c.synced && c.since.Epoch == "" {
			return errors.New("synced twice")
		}
		c.synced = true
	case KindEvent:
		if err := c.event(u.Event); err != nil {
			return err
		}
	}
	if u.Token.IsZero() != (u.Kind == KindReset || u.Kind == KindPod) {
		return fmt.Errorf("a %s with token %q", u.Kind, u.Token)
	}
	c.since = u.Token
	return nil
}

func (c *caller) event(e *event.Event) error {
	c.events++
	if c.done[e.ID] {
		return fmt.Errorf("%s is told twice", e.ID)
	}
	c.done[e.ID] = true
	id := e.Sandbox.ID
	if e.Container != nil {
		id = e.Container.ID
	}
	if e.Detection.FoundBy == FoundBySnapshot {
		c.inferred++
		if e.Sequence != 0 || e.Epoch == "" {
			return fmt.Errorf("%s was made of a snapshot and is %s-%d", e.ID, e.Epoch, e.Sequence)
		}
	}
	have, known := c.pods[id]
	rank := []event.State{event.StateCreated, event.StateRunning, event.StateExited}
	var to event.State
	switch e.Type {
	case event.PodSync:
		if !known {
			return fmt.Errorf("%s is about what is not there", e.ID)
		}
		return nil
	case event.ContainerRemoved, event.SandboxRemoved:
		if have != event.StateExited {
			return fmt.Errorf("%s comes when it is %q", e.ID, have)
		}
		delete(c.pods, id)
		return nil
	case event.ContainerCreated:
		to = event.StateCreated
	case event.ContainerStarted, event.SandboxStarted:
		to = event.StateRunning
	case event.ContainerDied, event.SandboxDied:
		to = event.StateExited
		if have != event.StateRunning {
			return fmt.Errorf("%s comes when it is %q", e.ID, have)
		}
	}
	if known && slices.Index(rank, to) <= slices.Index(rank, have) {
		return fmt.Errorf("%s comes when it is %q", e.ID, have)
	}
	c.pods[id] = to
	return nil
}

// agree compares what the caller knows with what there is.
func (c *caller) agree(pods []event.PodStatus) error {
	want := map[string]event.State{}
	for _, p := range pods {
		for _, s := range p.Sandboxes {
			want[s.Sandbox.ID] = s.State
		}
		for _, s := range p.Containers {
			want[s.Container.ID] = s.State
		}
	}
	for id, state := range want {
		if c.pods[id] != state {
			return fmt.Errorf("%s is %s, the caller has %q", id, state, c.pods[id])
		}
	}
	for id := range c.pods {
		if want[id] == "" {
			return fmt.Errorf("%s is gone, the caller was not told", id)
		}
	}
	return nil
}

// link is a connection of a ledger to a daemon's log.
type link struct {
	watcher *merge.Watcher
	lost    bool // an Expired is due
	synced  bool
}

func connect(t *testing.T, l *ledger, d *daemon) *link {
	t.Helper()
	var base []event.PodStatus
	if l.needsBase() {
		base = d.log.Snapshot().Pods
	}
	l.connect(base, d.ready)
	k := &link{}
	var err error
	k.watcher, err = d.log.Watch(merge.WatchOptions{Since: l.token})
	if errors.Is(err, merge.ErrFutureToken) {
		k.lost = true
		k.watcher, err = d.log.Watch(merge.WatchOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// next returns what the daemon sends next; ok is false while that is nothing.
func (k *link) next(t *testing.T) (u Update, ok bool) {
	t.Helper()
	if k.lost {
		k.lost = false
		return Update{Kind: KindReset}, true
	}
	if k.synced && k.watcher.Lag() == 0 {
		return Update{}, false
	}
	item, err := k.watcher.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	u = Update{Pod: item.Pod, Event: item.Event, Token: item.Token}
	switch item.Kind {
	case merge.ItemPod:
		u.Kind = KindPod
	case merge.ItemSynced:
		u.Kind, k.synced = KindSynced, true
	case merge.ItemEvent:
		u.Kind = KindEvent
	case merge.ItemExpired:
		u, k.synced = Update{Kind: KindReset}, false
	}
	return u, true
}

// history is what may happen, each with its weight in a random history.
type history struct {
	daemonRestarts, daemonLoses, daemonForgets, lineBreaks, callerRestarts int
}

// play lets a history happen and returns the caller, who has been told all.
func play(t *testing.T, seed uint64, h history) *caller {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 11))
	w := &world{rng: rng, now: time.Unix(1_700_000_000, 0).UTC()}
	d := &daemon{world: w, log: newLog(t)}
	c := &caller{state: NewState()}
	clock := func() time.Time { return w.now }
	all := func(*event.Event) bool { return true }
	newCaller := func() *ledger {
		return newLedger(c.since, all, clock)
	}
	l := newCaller()
	k := connect(t, l, d)
	hang := func() {
		k.watcher.Close()
		k = nil
	}
	// deal takes one thing from the daemon; of what it makes the caller may get only
	// some before it crashes.
	deal := func(crash bool) bool {
		u, ok := k.next(t)
		if !ok {
			return false
		}
		out, err := l.take(u)
		if err != nil { // the stream begins anew
			if errors.Is(err, errProtocol) && l.whole {
				t.Fatalf("seed %d: %v", seed, err)
			}
			hang()
			return false
		}
		if crash {
			out = out[:rng.IntN(len(out)+1)]
		}
		for _, u := range out {
			if err := c.deal(u); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
		return true
	}
	chance := func(weight int) bool { return rng.IntN(200) < weight }
	for range 1500 {
		w.step()
		if rng.IntN(2) == 0 {
			d.look()
		}
		if k == nil {
			if rng.IntN(3) == 0 {
				k = connect(t, l, d)
			}
		} else {
			for range rng.IntN(6) {
				if k == nil || !deal(false) {
					break
				}
			}
		}
		switch {
		case chance(h.daemonRestarts):
			d.ready = false
		case chance(h.daemonLoses):
			d.restart(t, rng.IntN(6))
		case chance(h.daemonForgets):
			d.restart(t, 1<<30)
		case chance(h.callerRestarts):
			if k != nil {
				deal(true)
			}
			l = newCaller()
		case !chance(h.lineBreaks):
			continue
		}
		if k != nil {
			hang()
		}
	}
	d.look()
	for range 10 {
		if k == nil {
			k = connect(t, l, d)
		}
		for k != nil && deal(false) {
		}
		if k != nil && k.synced {
			break
		}
	}
	for _, pods := range [][]event.PodStatus{w.pods, c.state.Pods()} {
		if err := c.agree(pods); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
	k.watcher.Close()
	return c
}

// TestExactlyOnce plays random histories. Whatever happens, no event may be told
// twice or out of order since the last reset, and at the end what was told must add
// up to what there is. A caller that keeps running is never reset.
func TestExactlyOnce(t *testing.T) {
	tests := []struct {
		name   string
		h      history
		resets int // at most
	}{
		{"nothing goes wrong", history{}, 1},
		{"lines break", history{lineBreaks: 20}, 1},
		{"the daemon is restarted", history{daemonRestarts: 6, lineBreaks: 4}, 1},
		{"the daemon is killed and loses the last it wrote", history{daemonLoses: 6, lineBreaks: 4}, 1},
		{"the daemon forgets everything", history{daemonForgets: 4, lineBreaks: 4}, 1},
		{"the caller is restarted", history{callerRestarts: 10, lineBreaks: 4}, 1 << 30},
		{"everything", history{4, 4, 2, 8, 6}, 1 << 30},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			chance := rand.Uint64()
			t.Logf("seed of chance: %d", chance)
			events, inferred := 0, 0
			for _, seed := range []uint64{1, 2, chance} {
				c := play(t, seed, tt.h)
				if c.resets > tt.resets || c.resets == 0 {
					t.Errorf("seed %d: %d resets", seed, c.resets)
				}
				events += c.events
				inferred += c.inferred
			}
			if events < 500 {
				t.Errorf("only %d events were told", events)
			}
			if tt.h != (history{}) && inferred == 0 {
				t.Errorf("no event was made of a snapshot: the histories test too little")
			}
		})
	}
}
