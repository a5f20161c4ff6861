package runner

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/internal/experiment/result"
	"github.com/hybrid-pleg/hybrid-pleg/internal/experiment/truth"
	"github.com/hybrid-pleg/hybrid-pleg/internal/experiment/workload"
)

func TestMatch(t *testing.T) {
	const second = int64(time.Second)
	life := func(id string, change func(*workload.Life)) workload.Life {
		l := workload.Life{Container: id, Pod: "p", Counts: true, Started: true, Planned: 5 * time.Second,
			AskedStart: 10 * second, AskedRemove: 20 * second}
		if change != nil {
			change(&l)
		}
		return l
	}
	lives := []workload.Life{
		life("whole", nil),
		life("warm-up", func(l *workload.Life) { l.Counts = false }),
		life("refused", func(l *workload.Life) { l.Started = false }),
		life("unseen", nil),
		life("runs", func(l *workload.Life) { l.AskedRemove = 0 }),
	}
	times := map[string]truth.Times{
		"whole":   {truth.Began: 11 * second, truth.Ended: 15 * second, truth.ShownCreated: 9 * second, truth.ShownRunning: 12 * second, truth.ShownExited: 16 * second, truth.ShownRemoved: 21 * second},
		"warm-up": {truth.Began: 11 * second},
		"runs":    {truth.Began: 11 * second, truth.ShownRunning: 12 * second},
	}
	witnesses := []witness{
		{name: "all", told: func(string) map[string]result.Told {
			return map[string]result.Told{result.Start: {At: 13 * second, Times: 1}, result.Exit: {At: 17 * second, Times: 2}}
		}},
		{name: "died", grace: 2 * time.Second, until: 15 * second, told: func(id string) map[string]result.Told {
			if id == "unseen" {
				return map[string]result.Told{result.Removed: {At: 14 * second, Times: 1}}
			}
			return nil
		}},
	}
	var got []string
	for _, tr := range match("w", 1, lives, func(id string) truth.Times { return times[id] }, witnesses) {
		told := []string{}
		for name := range tr.Told {
			told = append(told, name)
		}
		slices.Sort(told)
		line, err := json.Marshal([]any{tr.Container, tr.Kind, tr.Lifetime / second, tr.Listed / second,
			tr.Kernel / second, tr.Visible / second, tr.Asked / second, tr.Arms, told})
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, string(line))
	}
	want := []string{
		// By when they could be told; what "died" could not tell before it died it has not missed.
		`["unseen","start",5,0,0,0,10,["all","died"],["all"]]`,
		`["whole","start",4,12,11,12,10,["all","died"],["all"]]`,
		`["runs","start",5,0,11,12,10,["all","died"],["all"]]`,
		`["whole","exit",4,12,15,16,0,["all"],["all"]]`,
		`["unseen","removed",5,0,0,0,20,["all","died"],["died"]]`,
		`["whole","removed",4,12,0,21,20,["all"],[]]`,
	}
	// An exit that nobody saw has no time, and stays.
	want = append([]string{`["unseen","exit",5,0,0,0,0,["all"],["all"]]`}, want...)
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestDifference(t *testing.T) {
	if difference(nil, map[string]uint64{"a": 1}) != nil {
		t.Error("what is not known is given as known")
	}
	got := difference(map[string]uint64{"a": 5, "b": 3, "c": 1}, map[string]uint64{"a": 2, "b": 3})
	if got["a"] != 3 || got["c"] != 1 || len(got) != 3 {
		t.Errorf("the difference is %v", got)
	}
}
