package arm

import (
	"bytes"
	"encoding/json"
	"io"
	"sync"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/internal/experiment/clock"
	"github.com/hybrid-pleg/hybrid-pleg/internal/experiment/result"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
)

// Told is what an arm has told of each container. It is safe for concurrent use.
type Told struct {
	wall *clock.Wall

	mu         sync.Mutex
	containers map[string]*Container
	events     int
	bad        int
}

// Container is what an arm has told of one.
type Container struct {
	// Pod is the UID of its pod, as told.
	Pod string
	// Kinds holds what was told, by result's kinds of transition.
	Kinds map[string]result.Told

	reported bool
}

func newTold(wall *clock.Wall) *Told {
	return &Told{wall: wall, containers: map[string]*Container{}}
}

// told is what matters of an event's JSON.
type told struct {
	Type      event.Type       `json:"type"`
	Pod       event.Pod        `json:"pod"`
	Container *event.Container `json:"container"`
	Detection event.Detection  `json:"detection"`
	Inferred  bool             `json:"inferred"`
}

// read reads events until the end, and stamps each with when the last byte of it
// arrived.
func (t *Told) read(r io.Reader) {
	chunk := make([]byte, 64<<10)
	var line []byte
	for {
		n, err := r.Read(chunk)
		at := clock.Now()
		rest := chunk[:n]
		for {
			i := bytes.IndexByte(rest, '\n')
			if i < 0 {
				line = append(line, rest...)
				break
			}
			line = append(line, rest[:i]...)
			t.note(line, at)
			line, rest = line[:0], rest[i+1:]
		}
		if err != nil {
			return
		}
	}
}

// kindOf is the kind of transition that an event tells; empty for others.
func kindOf(t event.Type) string {
	switch t {
	case event.ContainerStarted:
		return result.Start
	case event.ContainerDied:
		return result.Exit
	case event.ContainerRemoved:
		return result.Removed
	default:
		return ""
	}
}

func (t *Told) note(line []byte, at int64) {
	var e told
	err := json.Unmarshal(line, &e)
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil {
		t.bad++
		return
	}
	t.events++
	kind := kindOf(e.Type)
	if kind == "" || e.Container == nil {
		return
	}
	c := t.containers[e.Container.ID]
	if c == nil {
		c = &Container{Pod: e.Pod.UID, Kinds: map[string]result.Told{}}
		t.containers[e.Container.ID] = c
	}
	was, again := c.Kinds[kind]
	if again {
		was.Times++
		c.Kinds[kind] = was
		return
	}
	c.Kinds[kind] = result.Told{
		At: at, Observed: t.observed(e.Detection.ObservedAt, at),
		FoundBy: string(e.Detection.FoundBy), Trigger: e.Detection.Trigger, Inferred: e.Inferred, Times: 1,
	}
}

// observed is when the listing was begun; 0 where it can't be: the clocks
// differ by their steps.
func (t *Told) observed(at time.Time, told int64) int64 {
	observed := t.wall.Monotonic(at)
	if observed < 0 || observed > told {
		return 0
	}
	return observed
}

// Of is what was told of a container, by kind; nil for nothing.
func (t *Told) Of(container string) map[string]result.Told {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.containers[container]
	if c == nil {
		return nil
	}
	out := make(map[string]result.Told, len(c.Kinds))
	for k, v := range c.Kinds {
		out[k] = v
	}
	return out
}

// Has reports whether a transition was told.
func (t *Told) Has(container, kind string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.containers[container]
	if c == nil {
		return false
	}
	_, ok := c.Kinds[kind]
	return ok
}

// Strange are events of containers that never were: not among known, though in one of
// the pods. Each is returned once only. Phase and repeat are left to the caller.
func (t *Told) Strange(known, pods map[string]bool) []result.FalseEvent {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []result.FalseEvent
	for id, c := range t.containers {
		if known[id] || !pods[c.Pod] || c.reported {
			continue
		}
		c.reported = true
		for kind, told := range c.Kinds {
			out = append(out, result.FalseEvent{Kind: kind, Container: id, At: told.At})
		}
	}
	return out
}

// Bad counts lines that were no events.
func (t *Told) Bad() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.bad
}
