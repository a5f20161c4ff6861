package differential

import (
	"maps"
	"slices"
	"testing"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/relist"
)

// mutationSeeds are the histories that mistakes are put into.
const mutationSeeds = 60

// TestComparisonNotices puts one mistake at a time into what was told of a history,
// at every place where it can be put, and wants each to be noticed.
func TestComparisonNotices(t *testing.T) {
	mistakes := map[string]func(all []told, i int) []told{
		"an event is left out":   func(all []told, i int) []told { return slices.Delete(all, i, i+1) },
		"an event is told twice": func(all []told, i int) []told { return slices.Insert(all, i, all[i]) },
		"two events are swapped": func(all []told, i int) []told {
			if i+1 < len(all) {
				all[i].typ, all[i+1].typ = all[i+1].typ, all[i].typ
			}
			return all
		},
		"an event has another type": func(all []told, i int) []told {
			next := map[event.Type]event.Type{
				event.ContainerStarted: event.ContainerDied,
				event.ContainerDied:    event.ContainerRemoved,
				event.ContainerRemoved: event.ContainerStarted,
			}
			all[i].typ = next[all[i].typ]
			return all
		},
		"an event is a relist late": func(all []told, i int) []told {
			all[i].relist++
			return all
		},
	}
	s := newStage(t)
	var all []history
	var outcomes []played
	for seed := range uint64(mutationSeeds) {
		h := randomHistory(seed)
		all, outcomes = append(all, h), append(outcomes, s.play(t, h, nil))
	}
	for name, mistake := range mistakes {
		t.Run(name, func(t *testing.T) {
			made := 0
			for seed, h := range all {
				for id, all := range outcomes[seed].ours {
					for i := range all {
						p := outcomes[seed]
						p.ours = maps.Clone(p.ours)
						p.ours[id] = mistake(slices.Clone(all), i)
						if slices.Equal(p.ours[id], all) {
							continue
						}
						made++
						if len(compare(h, p, make(tally))) == 0 {
							t.Errorf("seed %d: it is not noticed that ours told %v of %s, and not %v", seed, p.ours[id], id, all)
						}
					}
				}
			}
			if made == 0 {
				t.Error("no mistake was made")
			}
		})
	}
}

// TestComparisonNoticesTheUnexplained puts mistakes into what the kubelet told of
// that which may differ: what the reason does not explain is not allowed.
func TestComparisonNoticesTheUnexplained(t *testing.T) {
	s := newStage(t)
	made := make(map[why]int)
	for seed := range uint64(mutationSeeds) {
		h := randomHistory(seed)
		p := s.play(t, h, nil)
		for id, reason := range h.whys() {
			spoilt := p
			spoilt.kubelet = maps.Clone(p.kubelet)
			spoilt.kubelet[id] = append(slices.Clone(p.kubelet[id]), told{len(h), event.ContainerStarted})
			made[reason]++
			if len(compare(h, spoilt, make(tally))) == 0 {
				t.Errorf("seed %d: it is not noticed that the kubelet told %v of %s, which %q does not explain", seed, spoilt.kubelet[id], id, reason)
			}
		}
	}
	for _, reason := range []why{statusUnread, leftOut} {
		if made[reason] == 0 {
			t.Errorf("no history had %q", reason)
		}
	}
}

// TestMistakesAreNoticed lets hybrid-pleg's generator itself make mistakes between
// relist and merge, and plays histories until each is noticed.
func TestMistakesAreNoticed(t *testing.T) {
	without := func(typ event.Type) func([]relist.Change) []relist.Change {
		return func(changes []relist.Change) []relist.Change {
			return slices.DeleteFunc(changes, func(c relist.Change) bool { return c.Type == typ && !c.Inferred })
		}
	}
	mistakes := map[string]func([]relist.Change) []relist.Change{
		"no ContainerStarted": without(event.ContainerStarted),
		"no ContainerDied":    without(event.ContainerDied),
		"no ContainerRemoved": without(event.ContainerRemoved),
		"no SandboxStarted":   without(event.SandboxStarted),
		"no SandboxDied":      without(event.SandboxDied),
		"no SandboxRemoved":   without(event.SandboxRemoved),
		"the wrong way round": func(changes []relist.Change) []relist.Change {
			slices.Reverse(changes)
			return changes
		},
		"a start passed off as inferred": func(changes []relist.Change) []relist.Change {
			for i := range changes {
				changes[i].Inferred = changes[i].Inferred || changes[i].Type == event.ContainerStarted
			}
			return changes
		},
	}
	s := newStage(t)
	for name, mistake := range mistakes {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(mutationSeeds) {
				h := randomHistory(seed)
				if len(compare(h, s.play(t, h, mistake), make(tally))) > 0 {
					return
				}
			}
			t.Errorf("not noticed in %d histories", mutationSeeds)
		})
	}
}
