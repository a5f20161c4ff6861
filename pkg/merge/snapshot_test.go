package merge

import (
	"math/rand/v2"
	"reflect"
	"runtime"
	"testing"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/relist"
)

func TestSnapshotHoldsWhatIsKnown(t *testing.T) {
	l := newLog(t, Options{Epoch: "e"})
	pod := event.Pod{UID: "u", Namespace: "ns", Name: "web"}
	sandbox := &event.Sandbox{ID: "s", Attempt: 1}
	container := &event.Container{ID: "c", Name: "main", Image: "img"}
	at := time.Unix(1_700_000_000, 5)
	code := int32(1)
	started, died := &event.Status{Pid: 7}, &event.Status{ExitCode: &code}

	steps := []struct {
		change    relist.Change
		sandboxes []event.SandboxStatus
		container *event.ContainerStatus
	}{
		{
			change:    relist.Change{Type: event.SandboxStarted, Pod: pod, Sandbox: sandbox, CreatedAt: at},
			sandboxes: []event.SandboxStatus{{Sandbox: *sandbox, State: event.StateRunning, CreatedAt: at.UTC()}},
		},
		{
			change:    relist.Change{Type: event.ContainerStarted, Pod: pod, Sandbox: sandbox, Container: container, CreatedAt: at, Status: started},
			container: &event.ContainerStatus{Container: *container, SandboxID: "s", State: event.StateRunning, CreatedAt: at.UTC(), Status: started},
		},
		{
			change:    relist.Change{Type: "", Pod: pod, Sandbox: sandbox, Container: container, To: event.StateUnknown},
			container: &event.ContainerStatus{Container: *container, SandboxID: "s", State: event.StateUnknown, CreatedAt: at.UTC(), Status: started},
		},
		{ // no event ever said it was gone
			change:    relist.Change{Type: "", Pod: pod, Sandbox: sandbox, Container: container, To: event.StateNonExistent},
			container: &event.ContainerStatus{Container: *container, SandboxID: "s", State: event.StateUnknown, CreatedAt: at.UTC(), Status: started},
		},
		{ // the details are late: those known stay
			change:    relist.Change{Type: event.ContainerDied, Pod: pod, Sandbox: sandbox, Container: container, StatusMissing: event.StatusLate},
			container: &event.ContainerStatus{Container: *container, SandboxID: "s", State: event.StateExited, CreatedAt: at.UTC(), Status: started},
		},
		{
			change:    relist.Change{Type: event.PodSync, Pod: pod, Sandbox: sandbox, Container: container, Status: died},
			container: &event.ContainerStatus{Container: *container, SandboxID: "s", State: event.StateExited, CreatedAt: at.UTC(), Status: died},
		},
		{ // suppressed, yet it runs
			change:    relist.Change{Type: event.ContainerStarted, Pod: pod, Sandbox: sandbox, Container: container, Status: started},
			container: &event.ContainerStatus{Container: *container, SandboxID: "s", State: event.StateRunning, CreatedAt: at.UTC(), Status: died},
		},
	}
	var want event.PodStatus
	for i, step := range steps {
		want.Pod = pod
		if step.sandboxes != nil {
			want.Sandboxes = step.sandboxes
		}
		if step.container != nil {
			want.Containers = []event.ContainerStatus{*step.container}
		}
		l.Publish([]relist.Change{step.change})
		if got := l.Snapshot(); len(got.Pods) != 1 || !reflect.DeepEqual(got.Pods[0], want) || got.Token != l.Token() {
			t.Fatalf("step %d:\ngot  %+v\nwant %+v", i, got, want)
		}
	}

	l.Publish([]relist.Change{{Type: event.ContainerRemoved, Pod: pod, Sandbox: sandbox, Container: container}})
	if got := l.Snapshot(); len(got.Pods) != 1 || got.Pods[0].Containers != nil {
		t.Errorf("the container is removed: %+v", got)
	}
	l.Publish([]relist.Change{{Type: event.SandboxRemoved, Pod: pod, Sandbox: sandbox}})
	if got := l.Snapshot(); len(got.Pods) != 0 {
		t.Errorf("the pod's last sandbox is removed: %+v", got)
	}
}

// TestFirstSeenUnknown: a container of which nothing was told shows in snapshots,
// and PodSync tells of it.
func TestFirstSeenUnknown(t *testing.T) {
	l := newLog(t, Options{})
	c := change("", "c")
	c.To = event.StateUnknown
	l.Publish([]relist.Change{c})
	s := l.Snapshot()
	if len(s.Pods) != 1 || len(s.Pods[0].Containers) != 1 || s.Pods[0].Containers[0].State != event.StateUnknown {
		t.Fatalf("snapshot %+v, want the container in the unknown state", s)
	}
	if got := l.Publish([]relist.Change{change(event.ContainerStarted, "c")}); len(got) != 1 {
		t.Error("its start is not told")
	}
}

// TestCreatedAtIsLearnedOnce: the first time that is known stays.
func TestCreatedAtIsLearnedOnce(t *testing.T) {
	l := newLog(t, Options{})
	for _, step := range []struct {
		typ      event.Type
		at, want time.Time
	}{
		{event.ContainerCreated, time.Time{}, time.Time{}},
		{event.ContainerStarted, time.Unix(5, 6), time.Unix(5, 6).UTC()},
		{event.ContainerDied, time.Unix(7, 0), time.Unix(5, 6).UTC()},
	} {
		c := change(step.typ, "c")
		c.CreatedAt = step.at
		l.Publish([]relist.Change{c})
		if got := l.Snapshot().Pods[0].Containers[0].CreatedAt; got != step.want {
			t.Errorf("after %s: made at %v, want %v", step.typ, got, step.want)
		}
	}
}

// TestSnapshotOrder publishes the same pods in many orders.
func TestSnapshotOrder(t *testing.T) {
	var changes []relist.Change
	for _, pod := range []event.Pod{
		{UID: "3", Namespace: "a", Name: "x"}, {UID: "4", Namespace: "a", Name: "x"},
		{UID: "2", Namespace: "a", Name: "y"}, {UID: "1", Namespace: "b", Name: "x"},
	} {
		for i, id := range []string{"p", "r", "q"} {
			at := time.Unix(int64(100+i/2), 0) // p and r at once, q later
			id += pod.UID
			changes = append(changes,
				relist.Change{Type: event.SandboxStarted, Pod: pod, Sandbox: &event.Sandbox{ID: id}, CreatedAt: at},
				relist.Change{Type: event.ContainerStarted, Pod: pod, Container: &event.Container{ID: id}, CreatedAt: at})
		}
	}
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 0))
		r.Shuffle(len(changes), func(i, j int) { changes[i], changes[j] = changes[j], changes[i] })
		l := newLog(t, Options{})
		l.Publish(changes)
		var got []string
		for _, p := range l.Snapshot().Pods {
			got = append(got, p.Pod.UID)
			for _, s := range p.Sandboxes {
				got = append(got, s.Sandbox.ID)
			}
			for _, c := range p.Containers {
				got = append(got, c.Container.ID)
			}
		}
		var want []string
		for _, uid := range []string{"3", "4", "2", "1"} {
			want = append(want, uid, "p"+uid, "r"+uid, "q"+uid, "p"+uid, "r"+uid, "q"+uid)
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("seed %d: got %q, want %q", seed, got, want)
		}
	}
}

func TestSnapshotIsSharedUntilSomethingChanges(t *testing.T) {
	l := newLog(t, Options{})
	l.Publish([]relist.Change{change(event.ContainerStarted, "c")})
	first := l.snapshot()
	if l.snapshot() != first {
		t.Error("the second snapshot is a copy of its own")
	}
	unknown := change("", "c")
	unknown.To = event.StateUnknown
	l.Publish([]relist.Change{unknown})
	second := l.snapshot()
	if second == first || first.Pods[0].Containers[0].State != event.StateRunning || second.Pods[0].Containers[0].State != event.StateUnknown {
		t.Errorf("after a change without an event: %+v, before: %+v", second.Pods, first.Pods)
	}
	runtime.KeepAlive(first)
}
