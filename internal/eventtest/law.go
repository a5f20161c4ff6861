package eventtest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
)

// maxBreaches is how many breaches of the law an error tells one by one.
const maxBreaches = 20

// CheckLaw checks a stream of events against what every stream must obey. events
// is the stream from its beginning on, or from any place, without a gap; the
// error lists what is wrong, event by event.
//
// One epoch; sequence numbers that grow by one; known types, each with the parts
// that its type calls for; for each container at most one Created, Started, Died
// and Removed in that order, for each sandbox at most one Started, Died, Removed,
// and nothing after Removed, PodSync included; an ID that is the item's and the
// type's; for each pod the order in which its states were observed. Where the
// stream begins at sequence 1, one that died while running was started before.
func CheckLaw(events []event.Event) error {
	c := checker{lives: make(map[string]life), observed: make(map[string]time.Time), ids: make(map[string]uint64)}
	for i := range events {
		e := &events[i]
		if i > 0 {
			before := &events[i-1]
			c.require(e, e.Epoch == before.Epoch, "its epoch is %q, the one before has %q", e.Epoch, before.Epoch)
			c.require(e, e.Sequence == before.Sequence+1, "it follows sequence %d", before.Sequence)
		} else {
			c.whole = e.Sequence == 1
		}
		c.check(e)
	}
	if more := len(c.breaches) - maxBreaches; more > 0 {
		c.breaches = append(c.breaches[:maxBreaches], fmt.Errorf("… and %d more", more))
	}
	return errors.Join(c.breaches...)
}

type checker struct {
	// whole: the stream is given from its beginning on.
	whole    bool
	lives    map[string]life
	observed map[string]time.Time // by pod
	ids      map[string]uint64    // the sequence by event ID
	breaches []error
}

// life is what was told of an item so far: for each step, the sequence of its
// event, 0 while there was none.
type life [4]uint64

const (
	stepCreated = iota
	stepStarted
	stepDied
	stepRemoved
	stepNone = -1
)

// stepOf gives a type its place in an item's life; sandbox says whose.
func stepOf(t event.Type) (step int, sandbox bool) {
	switch t {
	case event.ContainerCreated:
		return stepCreated, false
	case event.ContainerStarted:
		return stepStarted, false
	case event.ContainerDied:
		return stepDied, false
	case event.ContainerRemoved:
		return stepRemoved, false
	case event.SandboxStarted:
		return stepStarted, true
	case event.SandboxDied:
		return stepDied, true
	case event.SandboxRemoved:
		return stepRemoved, true
	}
	return stepNone, false
}

func (c *checker) require(e *event.Event, ok bool, format string, args ...any) {
	if !ok {
		c.breaches = append(c.breaches, fmt.Errorf("event %d (%s): "+format, append([]any{e.Sequence, e.ID}, args...)...))
	}
}

func (c *checker) check(e *event.Event) {
	c.require(e, slices.Contains(event.Types(), e.Type), "there is no type %q", e.Type)
	c.require(e, e.Epoch != "", "it has no epoch")
	c.require(e, e.Pod.UID != "", "it has no pod UID")
	c.require(e, !e.Time.IsZero() && !e.Detection.ObservedAt.IsZero(), "it lacks a time")
	if before, twice := c.ids[e.ID]; twice {
		c.require(e, false, "event %d has the same ID", before)
	}
	c.ids[e.ID] = e.Sequence

	item := e.ItemID()
	step, sandbox := stepOf(e.Type)
	if step == stepNone {
		c.checkSync(e, item)
		return
	}
	if sandbox {
		c.require(e, e.Sandbox != nil && e.Container == nil, "it must name a sandbox and no container")
	} else {
		c.require(e, e.Container != nil, "it must name a container")
	}
	c.require(e, item != "" && e.ID == item+"/"+string(e.Type), "its ID should be %q", item+"/"+string(e.Type))

	l := c.lives[item]
	for later := step; later < len(l); later++ {
		c.require(e, l[later] == 0, "event %d told a step of its life that is not before this one", l[later])
	}
	if c.whole && step == stepDied && e.From == event.StateRunning {
		c.require(e, l[stepStarted] != 0, "it died while running, and its start was not told")
	}
	l[step] = e.Sequence
	c.lives[item] = l

	before := c.observed[e.Pod.UID]
	c.require(e, !e.Detection.ObservedAt.Before(before), "it was observed at %s, and the pod's event before at %s", e.Detection.ObservedAt, before)
	c.observed[e.Pod.UID] = e.Detection.ObservedAt
}

// checkSync checks a PodSync, which is of a container, or of the pod as a whole.
func (c *checker) checkSync(e *event.Event, item string) {
	if item == "" {
		item = e.Pod.UID
	}
	c.require(e, strings.HasPrefix(e.ID, item+"/"+string(e.Type)+"/"), "its ID should begin with %q", item+"/"+string(e.Type)+"/")
	c.require(e, c.lives[item][stepRemoved] == 0, "event %d told the removal", c.lives[item][stepRemoved])
}
