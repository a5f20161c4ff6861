package differential

import (
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"testing"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
)

// documented is where each difference is described, under a heading with its name.
const documented = "../../../docs/kubelet-differences.md"

// TestDifferences shows each documented difference in the smallest history that has
// it.
func TestDifferences(t *testing.T) {
	cases := make(map[string]func(*testing.T, *stage))
	for name, d := range sequenceDifferences() {
		cases[name] = d.check
	}
	maps.Copy(cases, vocabularyDifferences())
	maps.Copy(cases, behaviourDifferences())
	s := newStage(t)
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		t.Run(name, func(t *testing.T) { cases[name](t, s) })
	}

	doc, err := os.ReadFile(documented)
	if err != nil {
		t.Fatal(err)
	}
	var sections []string
	for _, m := range regexp.MustCompile("(?m)^### `([a-z-]+)`").FindAllSubmatch(doc, -1) {
		sections = append(sections, string(m[1]))
	}
	slices.Sort(sections)
	if want := slices.Sorted(maps.Keys(cases)); !slices.Equal(sections, want) {
		t.Errorf("%s has the sections\n%q\nand there are cases for\n%q", documented, sections, want)
	}
}

// sequenceDifference is a difference in what is told of a container or sandbox that
// the comparison allows.
type sequenceDifference struct {
	history       history
	kubelet, ours sequences
}

func (d sequenceDifference) check(t *testing.T, s *stage) {
	p := s.play(t, d.history, nil)
	if !reflect.DeepEqual(p.kubelet, d.kubelet) {
		t.Errorf("the kubelet told %v, want %v", p.kubelet, d.kubelet)
	}
	if !reflect.DeepEqual(p.ours, d.ours) {
		t.Errorf("ours told %v, want %v", p.ours, d.ours)
	}
	if wrong := compare(d.history, p, make(tally)); len(wrong) > 0 {
		t.Errorf("the comparison does not allow it: %q", wrong)
	}
}

func sequenceDifferences() map[string]sequenceDifference {
	started := func(relist int) told { return told{relist, event.ContainerStarted} }
	died := func(relist int) told { return told{relist, event.ContainerDied} }
	removed := func(relist int) told { return told{relist, event.ContainerRemoved} }
	return map[string]sequenceDifference{
		toldTwice: {
			history: history{shows(app(running)), shows(app(exited)), shows(app(running)), shows(app(unknown)), shows(app(exited))},
			kubelet: sequences{"c": {started(1), died(2), started(3), died(5)}},
			ours:    sequences{"c": {started(1), died(2)}},
		},
		outOfOrder: {
			history: history{shows(app(exited)), shows(app(running))},
			kubelet: sequences{"c": {died(1), started(2)}},
			ours:    sequences{"c": {died(1)}},
		},
		afterRemoval: {
			history: history{shows(app(running)), shows(), shows(app(running))},
			kubelet: sequences{"c": {started(1), died(2), removed(2), started(3)}},
			ours:    sequences{"c": {started(1), died(2), removed(2)}},
		},
		string(statusUnread): {
			history: history{unreadable("c", shows(app(running))), unreadable("c", shows(app(exited))), shows(app(exited))},
			kubelet: sequences{"c": {died(3)}},
			ours:    sequences{"c": {started(1), died(2)}},
		},
		string(leftOut): {
			history: history{shows(odd("c1", noImage), odd("c2", noMetadata)), shows(app(running))},
			kubelet: sequences{"c": {started(2)}},
			ours: sequences{
				"c":  {started(2)},
				"c1": {started(1), died(2), removed(2)},
				"c2": {started(1), died(2), removed(2)},
			},
		},
	}
}

// vocabularyDifferences are in what the mapping to the kubelet's types hides.
func vocabularyDifferences() map[string]func(*testing.T, *stage) {
	lines := func(o *ours) (out []string) {
		for i := range o.events {
			e := &o.events[i]
			line := string(e.Type) + " " + itemID(e)
			if e.Inferred {
				line += " inferred"
			}
			out = append(out, line)
		}
		return out
	}
	expect := func(h history, kubelet, ours []string) func(*testing.T, *stage) {
		return func(t *testing.T, s *stage) {
			k, o := s.playBoth(t, h, nil)
			if !slices.Equal(k.order, kubelet) {
				t.Errorf("the kubelet told %q, want %q", k.order, kubelet)
			}
			if got := lines(o); !slices.Equal(got, ours) {
				t.Errorf("ours told %q, want %q", got, ours)
			}
		}
	}
	return map[string]func(*testing.T, *stage){
		"container-created": expect(history{shows(app(created))}, nil, []string{"ContainerCreated c"}),
		"inferred-start": expect(history{shows(app(exited))},
			[]string{"ContainerDied c"},
			[]string{"ContainerStarted c inferred", "ContainerDied c"}),
		"sandbox-types": expect(history{shows(pause(ready)), shows(pause(notReady)), shows()},
			[]string{"ContainerStarted s", "ContainerDied s", "ContainerRemoved s"},
			[]string{"SandboxStarted s", "SandboxDied s", "SandboxRemoved s"}),
		"order-in-a-pod": expect(history{shows(pause(ready), app(running)), shows()},
			[]string{"ContainerStarted c", "ContainerStarted s", "ContainerDied c", "ContainerRemoved c", "ContainerDied s", "ContainerRemoved s"},
			[]string{"SandboxStarted s", "ContainerStarted c", "ContainerDied c", "ContainerRemoved c", "SandboxDied s", "SandboxRemoved s"}),
		"pod-sync": func(t *testing.T, s *stage) {
			// The kubelet: a pod whose status could not be read, and in which nothing is
			// different by the time when it can be.
			k, o := s.playBoth(t, history{
				shows(app(running)), unreadable("c", shows(app(exited))), shows(app(running)),
			}, nil)
			if k.syncs != 1 || o.syncs != 0 {
				t.Errorf("with nothing changed in the end the kubelet told %d, ours %d; want 1 and 0", k.syncs, o.syncs)
			}
			// Ours: details that come after the event which lacked them.
			k, o = s.playBoth(t, history{
				shows(app(running)), unreadable("c", shows(app(exited))), shows(app(exited)), shows(app(exited)),
			}, nil)
			if k.syncs != 0 || o.syncs != 1 {
				t.Errorf("with details that came late the kubelet told %d, ours %d; want 0 and 1", k.syncs, o.syncs)
			}
		},
		"pod-without-label": func(t *testing.T, s *stage) {
			k, o := s.playBoth(t, history{shows(pause(ready), odd("c", noLabels))}, nil)
			if got := k.pods["c"]; got != "" {
				t.Errorf("the kubelet told it of pod %q, want none", got)
			}
			for i := range o.events {
				if o.events[i].Pod.UID != "p" {
					t.Errorf("ours told %s of pod %q, want its sandbox's, p", o.events[i].ID, o.events[i].Pod.UID)
				}
			}
			if len(o.events) != 2 {
				t.Errorf("ours told %d events, want 2", len(o.events))
			}
		},
	}
}

// app is a container c of pod p, pause its sandbox s.
func app(state int32) thing {
	return thing{id: "c", pod: "p", sandbox: "s", name: "app", createdAt: 2, state: state}
}

func pause(state int32) thing { return thing{id: "s", pod: "p", createdAt: 1, state: state} }

// odd is a running container of pod p with something odd about it.
func odd(id string, o oddity) thing {
	c := app(running)
	c.id, c.name, c.odd = id, id, o
	return c
}

// shows is a step with things.
func shows(things ...thing) step {
	var s step
	for _, t := range things {
		if t.sandbox == "" {
			s.sandboxes = append(s.sandboxes, t)
		} else {
			s.containers = append(s.containers, t)
		}
	}
	return s
}

// unreadable is a step in which a status can't be read.
func unreadable(id string, s step) step {
	s.unreadable = map[string]bool{id: true}
	return s
}
