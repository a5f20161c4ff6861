package pleg_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/internal/embedded"
	"github.com/hybrid-pleg/hybrid-pleg/internal/eventtest"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/pleg"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/trigger"
)

// TestSameStoryWhateverTheTriggers plays one story under each setting of the
// triggers: what is told must be the same. Each step waits for its event, so that
// nothing is too short for the period to see.
func TestSameStoryWhateverTheTriggers(t *testing.T) {
	want := []string{
		"test/job main#0 ContainerCreated", "test/job main#0 ContainerDied exit 3", "test/job main#0 ContainerRemoved", "test/job main#0 ContainerStarted",
		"test/job main#1 ContainerCreated", "test/job main#1 ContainerDied exit 143", "test/job main#1 ContainerRemoved", "test/job main#1 ContainerStarted",
		"test/job sandbox#0 SandboxDied", "test/job sandbox#0 SandboxRemoved", "test/job sandbox#0 SandboxStarted",
		"test/job sandbox#1 SandboxStarted",
	}
	for name, triggers := range map[string][]trigger.SourceName{"none": noTriggers, "cgroup": onlyCgroup, "cri": onlyCRI, "all": allTriggers} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := context.Background()
			s := newStage(t)
			s.run(func(o *pleg.Options) {
				o.Triggers = triggers
				if len(triggers) == 0 {
					o.RelistPeriod = 20 * time.Millisecond
				}
			})
			s.relisted()
			sandbox, config := s.pod("job")
			s.await(sandbox, event.SandboxStarted)
			var last string
			for attempt := range uint32(2) {
				id, err := s.rt.Create(ctx, sandbox, embedded.ContainerConfig(config, "main", attempt, "image", "run"))
				check(t, err)
				s.await(id, event.ContainerCreated)
				check(t, s.rt.Start(ctx, id))
				s.await(id, event.ContainerStarted)
				if attempt == 0 {
					check(t, s.rt.Exit(id, 3, ""))
				} else {
					check(t, s.rt.Stop(ctx, id, time.Minute))
				}
				died := s.await(id, event.ContainerDied)
				if died.Status == nil || died.Status.ExitCode == nil || died.Status.FinishedAt.IsZero() {
					t.Errorf("no details: %+v", died)
				}
				if last != "" {
					check(t, s.rt.Remove(ctx, last))
					s.await(last, event.ContainerRemoved)
				}
				last = id
			}
			check(t, s.rt.StopPod(ctx, sandbox))
			s.await(sandbox, event.SandboxDied)
			// A second sandbox of the same pod, while the first is still there.
			again := embedded.PodConfig("test", "job", uid("job"), 1, embedded.Burstable)
			second, err := s.rt.RunPod(ctx, again)
			check(t, err)
			s.await(second, event.SandboxStarted)
			check(t, s.rt.RemovePod(ctx, sandbox))
			s.await(last, event.ContainerRemoved)
			s.await(sandbox, event.SandboxRemoved)
			s.stop()
			if got := eventtest.Keys(s.told()); !slices.Equal(got, want) {
				t.Errorf("told %q\nwant %q", got, want)
			}
			for _, e := range s.told() {
				if len(triggers) == 0 && e.Detection.Trigger != "" {
					t.Errorf("put down to %s: %s", e.Detection.Trigger, e.ID)
				}
				if e.Detection.FoundBy == event.FoundStartup {
					t.Errorf("found at startup: %s", e.ID)
				}
			}
		})
	}
}

// TestFastStory lets a pod live for milliseconds: with triggers its start and its
// end are told, with the exit code.
func TestFastStory(t *testing.T) {
	s := newStage(t)
	s.run(nil)
	s.relisted()
	sandbox, config := s.pod("flash")
	id := s.container(sandbox, config, "main", 0, "exit", "7")
	died := s.await(id, event.ContainerDied)
	if died.Status == nil || died.Status.ExitCode == nil || *died.Status.ExitCode != 7 {
		t.Errorf("exit code: %+v", died)
	}
	types := eventtest.OfItem(s.told(), id)
	if i := slices.Index(types, event.ContainerStarted); i < 0 {
		t.Errorf("told %v", types)
	}
}

func TestPausedContainer(t *testing.T) {
	s := newStage(t)
	s.run(nil)
	sandbox, config := s.pod("paused")
	id := s.container(sandbox, config, "main", 0, "run")
	s.await(id, event.ContainerStarted)
	for _, frozen := range []bool{true, false, true, false} {
		check(t, s.rt.Freeze(id, frozen))
	}
	other := s.container(sandbox, config, "other", 0, "run")
	s.await(other, event.ContainerStarted)
	s.relisted()
	if got, want := eventtest.OfItem(s.told(), id), []event.Type{event.ContainerCreated, event.ContainerStarted}; !slices.Equal(got[len(got)-1:], want[1:]) || len(got) > 2 {
		t.Errorf("told %v, want %v", got, want)
	}
}

// TestThousandExited starts on a node that holds many exited containers.
func TestThousandExited(t *testing.T) {
	const pods, each = 100, 10
	s := newStage(t)
	s.rt.SetLag(embedded.NoLag())
	for p := range pods {
		sandbox, config := s.pod("old-" + string(rune('a'+p/10)) + string(rune('a'+p%10)))
		for c := range each {
			id := s.container(sandbox, config, "c", uint32(c), "exit", "1")
			_, err := s.rt.Wait(context.Background(), id)
			check(t, err)
		}
	}
	s.run(nil)
	until(t, "everything is told", func() bool { return len(eventtest.Keys(s.told())) >= pods*(1+2*each) })
	counts := map[event.Type]int{}
	for _, e := range s.told() {
		counts[e.Type]++
		switch {
		case e.Type == event.PodSync: // details that were late
		case e.Detection.FoundBy != event.FoundStartup:
			t.Errorf("%s found by %s", e.ID, e.Detection.FoundBy)
		case e.Type == event.ContainerStarted && !e.Inferred:
			t.Errorf("%s is not marked as inferred", e.ID)
		case e.Type == event.ContainerDied && e.StatusMissing == "" && (e.Status == nil || e.Status.ExitCode == nil || *e.Status.ExitCode != 1):
			t.Errorf("%s has status %+v", e.ID, e.Status)
		}
	}
	if counts[event.SandboxStarted] != pods || counts[event.ContainerStarted] != pods*each || counts[event.ContainerDied] != pods*each {
		t.Errorf("told %v", counts)
	}
	check(t, s.g.Healthy())
	if n := s.rt.Calls("ContainerStatus").MaxInFlight; n > 64 {
		t.Errorf("%d statuses were read at a time", n)
	}
}

// TestManyPodsAtOnce starts 500 pods as fast as the runtime can.
func TestManyPodsAtOnce(t *testing.T) {
	const pods = 500
	s := newStage(t)
	s.run(func(o *pleg.Options) { o.EarlyRelistRate = 50 })
	s.relisted()
	before, began := s.rt.Calls("ListPodSandbox").Total, time.Now()
	ids := make([]string, pods)
	for i := range pods {
		sandbox, config := s.pod("storm-" + string(rune('a'+i/26)) + string(rune('a'+i%26)))
		ids[i] = s.container(sandbox, config, "main", 0, "run")
	}
	for _, id := range ids {
		s.await(id, event.ContainerStarted)
	}
	took := time.Since(began)
	// A burst of one second's worth, the rate, and the relists of everything.
	if calls, most := s.rt.Calls("ListPodSandbox").Total-before, 150+int(took.Seconds()*(50+10)); calls > most {
		t.Errorf("%d listings in %s, more than %d", calls, took, most)
	}
	if got := len(s.g.Snapshot().Pods); got != pods {
		t.Errorf("the snapshot has %d pods", got)
	}
}
