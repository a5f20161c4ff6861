package relist

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// snapshotOf writes a store's records as a snapshot.
func snapshotOf(s *Store) []event.PodStatus {
	var out []event.PodStatus
	for _, p := range s.pods {
		status := event.PodStatus{Pod: p.pod}
		for _, rec := range p.records {
			var at time.Time
			if rec.createdAt != 0 {
				at = time.Unix(0, rec.createdAt).UTC()
			}
			if rec.container == nil {
				status.Sandboxes = append(status.Sandboxes, event.SandboxStatus{Sandbox: *rec.sandbox, State: rec.state.event(), CreatedAt: at})
				continue
			}
			status.Containers = append(status.Containers, event.ContainerStatus{
				Container: *rec.container, SandboxID: rec.sandboxID(), State: rec.state.event(), CreatedAt: at,
			})
		}
		out = append(out, status)
	}
	return out
}

// told writes changes as one line each.
func told(pods []PodChanges) []string {
	var out []string
	for _, pc := range pods {
		for i := range pc.Changes {
			c := &pc.Changes[i]
			sandbox := ""
			if c.Sandbox != nil {
				sandbox = c.Sandbox.ID
			}
			out = append(out, fmt.Sprintf("%s: %s %s of %s, %s to %s, made %d", pc.Pod.UID, c.Type, c.ItemID(), sandbox, c.From, c.To, c.CreatedAt.UnixNano()))
		}
	}
	return out
}

// TestCompareTellsAsApply compares the snapshots before and after an observation, and
// wants the same changes in the same order as applying the observation made. What Apply
// knows beyond snapshots is whether an item that went back to created ran before; here
// none goes back.
func TestCompareTellsAsApply(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 3))
		s := NewStore(StoreOptions{})
		now := time.Now()
		states := make(map[string]runtimeapi.ContainerState)
		for range 20 {
			before := snapshotOf(s)
			now = now.Add(time.Second)
			want := told(s.Apply(randomListing(rng, now, states), nil))
			if got := told(Compare(before, snapshotOf(s), now)); !slices.Equal(got, want) {
				t.Fatalf("seed %d:\nCompare\n  %s\nApply\n  %s", seed, strings.Join(got, "\n  "), strings.Join(want, "\n  "))
			}
		}
	}
}

// randomListing shows some of a few pods, whose sandboxes are made anew and whose
// containers are restarted. states are those of the listing before.
func randomListing(rng *rand.Rand, at time.Time, states map[string]runtimeapi.ContainerState) *Observation {
	o := &Observation{At: at}
	before := maps.Clone(states)
	clear(states)
	for pod := range 3 {
		for attempt := range 2 {
			if rng.IntN(3) == 0 {
				continue
			}
			sandbox := fmt.Sprintf("s%d-%d", pod, attempt)
			o.Sandboxes = append(o.Sandboxes, &runtimeapi.PodSandbox{
				Id: sandbox, CreatedAt: int64(attempt + 1), State: runtimeapi.PodSandboxState(rng.IntN(2)),
				Metadata: &runtimeapi.PodSandboxMetadata{Uid: fmt.Sprint("p", pod), Name: "n", Attempt: uint32(attempt)},
			})
			for c := range 3 {
				if rng.IntN(3) == 0 {
					continue
				}
				id := fmt.Sprintf("c%d-%d-%d", pod, attempt, c)
				states[id] = max(before[id], runtimeapi.ContainerState(rng.IntN(3)))
				o.Containers = append(o.Containers, &runtimeapi.Container{
					Id: id, PodSandboxId: sandbox, CreatedAt: int64(10*attempt + c + 1), State: states[id],
					Metadata: &runtimeapi.ContainerMetadata{Name: fmt.Sprint("name", c%2), Attempt: uint32(c / 2)},
				})
			}
		}
	}
	return o
}

func TestCompareDetails(t *testing.T) {
	code := int32(3)
	began, ended := time.Unix(100, 0), time.Unix(200, 0)
	exitedWith := &event.Status{StartedAt: began, FinishedAt: ended, ExitCode: &code, Reason: "Error"}
	runs := &event.Status{StartedAt: began, Pid: 7}
	pod := func(containers ...event.ContainerStatus) []event.PodStatus {
		return []event.PodStatus{{Pod: event.Pod{UID: "p"}, Containers: containers}}
	}
	c := func(state event.State, status *event.Status) event.ContainerStatus {
		return event.ContainerStatus{Container: event.Container{ID: "c"}, State: state, Status: status}
	}
	tests := []struct {
		name     string
		old, now []event.PodStatus
		want     string // type, inferred, what is missing, exit code
	}{
		{"ended, and it is known how", pod(c(event.StateRunning, runs)), pod(c(event.StateExited, exitedWith)), "ContainerDied false  3"},
		{"ended, and it is not known how", pod(c(event.StateRunning, runs)), pod(c(event.StateExited, nil)), "ContainerDied false gone -"},
		{"gone", pod(c(event.StateRunning, runs)), nil, "ContainerDied true gone -; ContainerRemoved false  -"},
		{"gone after its end", pod(c(event.StateExited, exitedWith)), nil, "ContainerRemoved false  -"},
		{"new and ended", nil, pod(c(event.StateExited, exitedWith)), "ContainerStarted true  -; ContainerDied false  3"},
		{"new", nil, pod(c(event.StateRunning, runs)), "ContainerStarted false  -"},
		{"the same", pod(c(event.StateRunning, runs)), pod(c(event.StateRunning, &event.Status{StartedAt: began.UTC(), Pid: 7})), ""},
		{"details came late", pod(c(event.StateExited, nil)), pod(c(event.StateExited, exitedWith)), "PodSync false  3"},
		{"details are lost", pod(c(event.StateExited, exitedWith)), pod(c(event.StateExited, nil)), ""},
		{"not readable", pod(c(event.StateRunning, runs)), pod(c(event.StateUnknown, runs)), " false  -"},
		{"a word of tomorrow", nil, pod(c("paused", nil)), " false  -"},
		{"nothing", nil, nil, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, pc := range Compare(tt.old, tt.now, time.Unix(300, 0)) {
				for _, ch := range pc.Changes {
					code := "-"
					if ch.Status != nil && ch.Status.ExitCode != nil {
						code = fmt.Sprint(*ch.Status.ExitCode)
					}
					got = append(got, fmt.Sprintf("%s %t %s %s", ch.Type, ch.Inferred, ch.StatusMissing, code))
					if !ch.Detection.ObservedAt.Equal(time.Unix(300, 0)) {
						t.Errorf("observed at %s", ch.Detection.ObservedAt)
					}
				}
			}
			if line := strings.Join(got, "; "); line != tt.want {
				t.Errorf("%q, want %q", line, tt.want)
			}
		})
	}
}

// TestHealthyOnceTold wants an engine not to be healthy before the changes of its
// first listing were handed on.
func TestHealthyOnceTold(t *testing.T) {
	path := socket(t)
	hold, held := make(chan struct{}), make(chan struct{}, 1)
	e, err := New(Options{Runtime: newClient(t, path), Sink: func([]Change) {
		held <- struct{}{}
		<-hold
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	serve(t, path, &criServer{})
	if res := e.Relist(t.Context(), Request{}); res.Err != nil || len(res.Changes) != 1 {
		t.Fatalf("%+v", res)
	}
	<-held
	if err := e.Healthy(); err == nil || err.Error() != ErrNotTold.Error() {
		t.Errorf("while the first changes are being handed on: %v", err)
	}
	close(hold)
	eventually(t, "healthy", func() bool { return e.Healthy() == nil })
}
