package relist

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
)

// wantTable is the transition table: what an item means that goes from the state
// of the row to that of the column. (Started) is a start that is inferred, and
// told only if no listing showed the item running before.
const wantTable = `
old \ new    | absent                 | created | running | exited          | unknown
absent       | -                      | Created | Started | (Started) Died  | changed
created      | (Started) Died Removed | -       | Started | (Started) Died  | changed
running      | Died Removed           | changed | -       | Died            | changed
exited       | Removed                | changed | Started | -               | changed
unknown      | (Started) Died Removed | Created | Started | (Started) Died  | -
`

var stateNames = [numStates]string{"absent", "created", "running", "exited", "unknown"}

func TestTransitionTable(t *testing.T) {
	x := indexTransitions()
	words := [...]string{"changed", "Created", "Started", "(Started)", "Died", "Removed"}
	var got strings.Builder
	fmt.Fprintf(&got, "\n%-12s", `old \ new`)
	widths := [numStates]int{22, 7, 7, 15, 7}
	for _, name := range stateNames {
		fmt.Fprintf(&got, " | %-*s", widths[slices.Index(stateNames[:], name)], name)
	}
	for old := range numStates {
		fmt.Fprintf(&got, "\n%-12s", stateNames[old])
		for next := range numStates {
			var cell []string
			for _, v := range x[old][next] {
				cell = append(cell, words[v])
			}
			if len(cell) == 0 {
				cell = []string{"-"}
			}
			fmt.Fprintf(&got, " | %-*s", widths[next], strings.Join(cell, " "))
		}
	}
	if trim(got.String()) != trim(wantTable) {
		t.Errorf("the table is now:\n%s", got.String())
	}
}

func trim(table string) string {
	lines := strings.Split(strings.TrimSpace(table), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRight(line, " ")
	}
	return strings.Join(lines, "\n")
}

// kubeletEvents is generateEvents of pkg/kubelet/pleg/generic.go (v1.37), which
// reads the created state as unknown and publishes no ContainerChanged.
func kubeletEvents(old, next state) []event.Type {
	if old == created {
		old = unknown
	}
	if next == created {
		next = unknown
	}
	if old == next {
		return nil
	}
	switch next {
	case running:
		return []event.Type{event.ContainerStarted}
	case exited:
		return []event.Type{event.ContainerDied}
	case absent:
		if old == exited {
			return []event.Type{event.ContainerRemoved}
		}
		return []event.Type{event.ContainerDied, event.ContainerRemoved}
	default:
		return nil
	}
}

// mappedDown is what is left of steps for someone who knows the kubelet's types.
func mappedDown(steps []step) (types []event.Type) {
	for _, st := range steps {
		if st.verb == startedUnseen {
			continue
		}
		if typ := st.verb.eventType(st.rec.container == nil).Kubelet(); typ != "" {
			types = append(types, typ)
		}
	}
	return types
}

// walk takes one item through the states given and checks each transition against
// the kubelet's.
func walk(t *testing.T, rec *record, states []state) {
	t.Helper()
	x := indexTransitions()
	ranBefore := false
	for i, next := range states {
		old := rec.state
		steps := x.diff(rec, next, nil)
		if got, want := mappedDown(steps), kubeletEvents(old, next); !slices.Equal(got, want) {
			t.Fatalf("walk %v, step %d, %s to %s: %v, the kubelet has %v",
				states, i, stateNames[old], stateNames[next], got, want)
		}
		from := old
		for _, st := range steps {
			if st.from != from {
				t.Fatalf("walk %v, step %d: change from %s after one to %s", states, i, stateNames[st.from], stateNames[from])
			}
			if st.verb == startedUnseen && ranBefore {
				t.Fatalf("walk %v, step %d: a start was inferred after one was told", states, i)
			}
			ranBefore = ranBefore || st.verb == started || st.verb == startedUnseen
			from = st.to
		}
		if len(steps) > 0 && from != next {
			t.Fatalf("walk %v, step %d: the changes end in %s, not %s", states, i, stateNames[from], stateNames[next])
		}
		rec.state = next
	}
}

func TestKubeletEquality(t *testing.T) {
	kinds := map[string]func() *record{
		"container": func() *record { return &record{container: &event.Container{}} },
		"sandbox":   func() *record { return &record{} },
	}
	for kind, newRecord := range kinds {
		t.Run(kind, func(t *testing.T) {
			for old := range numStates {
				for next := range numStates {
					walk(t, newRecord(), []state{old, next})
				}
			}
			rng := rand.New(rand.NewPCG(1, 2))
			for range 2000 {
				states := make([]state, 30)
				for i := range states {
					states[i] = state(rng.IntN(int(numStates)))
				}
				walk(t, newRecord(), states)
			}
		})
	}
}

func FuzzKubeletEquality(f *testing.F) {
	f.Add([]byte{1, 2, 3, 0})
	f.Fuzz(func(t *testing.T, raw []byte) {
		states := make([]state, len(raw))
		for i, b := range raw {
			states[i] = state(b) % numStates
		}
		walk(t, &record{container: &event.Container{}}, states)
	})
}
