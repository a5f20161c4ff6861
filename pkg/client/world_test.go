package client

import (
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
	journal int
	log     *merge.Log
	ready   bool
	// kept is the state after each of the last looks, which are in a directory sooner
	// or later.
	kept []merge.State
}

func newDaemon(t *testing.T, w *world, journal int) *daemon {
	d := &daemon{world: w, journal: journal}
	d.restart(t, 0)
	return d
}

// keepMost is how many looks may be lost at once.
const keepMost = 20

func (d *daemon) look(t *testing.T) {
	for _, pc := range relist.Compare(d.log.Snapshot().Pods, d.world.pods, d.world.now) {
		d.log.Publish(pc.Changes)
	}
	d.ready = true
	rec, err := d.log.Record()
	if err != nil {
		t.Fatal(err)
	}
	d.kept = append(d.kept[max(0, len(d.kept)-keepMost):], rec.Export())
	rec.Close()
}

// restart starts it again with all that it kept but for the last `lose` looks, of which
// the oldest kept is none. It will tell again what it lost, if that is still to be seen.
func (d *daemon) restart(t *testing.T, lose int) {
	t.Helper()
	o := merge.Options{JournalEvents: d.journal}
	d.kept = d.kept[:max(min(1, len(d.kept)), len(d.kept)-lose)]
	if n := len(d.kept); n > 0 {
		o.Restore = &d.kept[n-1]
	}
	log, err := merge.New(o)
	if err != nil {
		t.Fatal(err)
	}
	d.log, d.ready = log, false
}

// forget starts it again with nothing.
func (d *daemon) forget(t *testing.T) {
	t.Helper()
	d.kept = nil
	d.restart(t, 0)
}

// told returns all that is in the journal.
func (d *daemon) told(t *testing.T) []*event.Event {
	t.Helper()
	w, err := d.log.Watch(merge.WatchOptions{Since: d.log.Stats().OldestToken})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	var events []*event.Event
	for item, err := range w.All(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if item.Kind != merge.ItemEvent {
			break
		}
		events = append(events, item.Event)
	}
	return events
}
