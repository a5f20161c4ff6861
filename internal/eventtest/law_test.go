package eventtest

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
)

// story builds a lawful stream, for tests to spoil.
func story(types ...event.Type) []event.Event {
	events := make([]event.Event, len(types))
	for i, typ := range types {
		e := event.Event{
			Epoch: "e", Sequence: uint64(i + 1), Type: typ, Time: time.Unix(int64(i), 0),
			Pod:       event.Pod{UID: "u", Namespace: "ns", Name: "pod"},
			Sandbox:   &event.Sandbox{ID: "s"},
			Detection: event.Detection{ObservedAt: time.Unix(int64(i), 0)},
		}
		item := "s"
		switch typ {
		case event.SandboxStarted, event.SandboxDied, event.SandboxRemoved:
		default:
			e.Container, item = &event.Container{ID: "c", Name: "app"}, "c"
		}
		e.ID = item + "/" + string(typ)
		switch typ {
		case event.PodSync:
			e.ID += "/e-" + strings.Repeat("1", i)
		case event.ContainerDied, event.SandboxDied:
			e.From, e.To = event.StateRunning, event.StateExited
		}
		events[i] = e
	}
	return events
}

func life8() []event.Event {
	return story(event.SandboxStarted, event.ContainerCreated, event.ContainerStarted, event.PodSync,
		event.ContainerDied, event.ContainerRemoved, event.SandboxDied, event.SandboxRemoved)
}

func TestCheckLaw(t *testing.T) {
	tests := []struct {
		name  string
		spoil func([]event.Event) []event.Event
		want  string // what the error says; empty: lawful
	}{
		{"a life", func(e []event.Event) []event.Event { return e }, ""},
		{"none", func([]event.Event) []event.Event { return nil }, ""},
		{"from the middle on", func(e []event.Event) []event.Event { return e[4:] }, ""},
		{"a step nobody saw", func([]event.Event) []event.Event {
			return story(event.ContainerStarted, event.ContainerRemoved)
		}, ""},
		{"never started, by the runtime's word", func([]event.Event) []event.Event {
			e := story(event.ContainerCreated, event.ContainerDied)
			e[1].From = event.StateCreated
			return e
		}, ""},
		{"a gap", func(e []event.Event) []event.Event { return slices.Delete(e, 2, 3) }, "event 4 (c/PodSync/e-111): it follows sequence 2"},
		{"two epochs", func(e []event.Event) []event.Event { e[3].Epoch = "f"; return e }, `its epoch is "f"`},
		{"an unknown type", func(e []event.Event) []event.Event { e[3].Type = "Odd"; return e }, `there is no type "Odd"`},
		{"told twice", func([]event.Event) []event.Event {
			return story(event.ContainerStarted, event.ContainerStarted)
		}, "event 1 told a step"},
		{"out of order", func([]event.Event) []event.Event {
			return story(event.ContainerStarted, event.ContainerCreated)
		}, "event 1 told a step"},
		{"after the removal", func([]event.Event) []event.Event {
			return story(event.ContainerStarted, event.ContainerRemoved, event.ContainerDied)
		}, "event 2 told a step"},
		{"a sync after the removal", func([]event.Event) []event.Event {
			return story(event.ContainerRemoved, event.PodSync)
		}, "event 1 told the removal"},
		{"died without a start", func([]event.Event) []event.Event {
			return story(event.ContainerCreated, event.ContainerDied)
		}, "its start was not told"},
		{"no pod", func(e []event.Event) []event.Event { e[0].Pod.UID = ""; return e }, "no pod UID"},
		{"no container", func(e []event.Event) []event.Event { e[1].Container = nil; return e }, "must name a container"},
		{"a container in a sandbox event", func(e []event.Event) []event.Event {
			e[0].Container = e[1].Container
			return e
		}, "a sandbox and no container"},
		{"a wrong ID", func(e []event.Event) []event.Event { e[1].ID = "x"; return e }, `its ID should be "c/ContainerCreated"`},
		{"back in time", func(e []event.Event) []event.Event {
			e[2].Detection.ObservedAt = e[0].Detection.ObservedAt
			return e
		}, "it was observed at"},
		{"no time", func(e []event.Event) []event.Event { e[2].Time = time.Time{}; return e }, "lacks a time"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			err := CheckLaw(test.spoil(life8()))
			switch {
			case test.want == "" && err != nil:
				t.Errorf("lawful, but: %v", err)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
				t.Errorf("the error is %v, want one that says %q", err, test.want)
			}
		})
	}
}

func TestManyBreaches(t *testing.T) {
	var types []event.Type
	for range 100 {
		types = append(types, event.ContainerStarted)
	}
	lines := strings.Split(CheckLaw(story(types...)).Error(), "\n")
	if len(lines) != maxBreaches+1 || !strings.HasPrefix(lines[maxBreaches], "… and ") {
		t.Errorf("the error has %d lines, the last one %q", len(lines), lines[len(lines)-1])
	}
}

func TestKeys(t *testing.T) {
	events := life8()
	code := int32(3)
	events[4].Status = &event.Status{ExitCode: &code}
	want := []string{
		"ns/pod app#0 ContainerCreated",
		"ns/pod app#0 ContainerDied exit 3",
		"ns/pod app#0 ContainerRemoved",
		"ns/pod app#0 ContainerStarted",
		"ns/pod sandbox#0 SandboxDied",
		"ns/pod sandbox#0 SandboxRemoved",
		"ns/pod sandbox#0 SandboxStarted",
	}
	if got := Keys(events); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if got := OfItem(events, "s"); !slices.Equal(got, []event.Type{event.SandboxStarted, event.SandboxDied, event.SandboxRemoved}) {
		t.Errorf("the sandbox's types are %v", got)
	}
}
