//go:build linux

package e2e

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/internal/testruntime"
	"github.com/hybrid-pleg/hybrid-pleg/internal/testruntime/runtimetest"
	"github.com/hybrid-pleg/hybrid-pleg/internal/testutil"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/pleg"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/trigger"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/trigger/cgroupfs"
)

// detailArms are generators that wait for details as long as it takes, so that
// none comes late.
func detailArms(t *testing.T, rt *testruntime.Runtime) []*arm {
	return []*arm{
		startArm(t, rt, "all", pleg.Options{RelistPeriod: time.Second, StatusDeadline: patience}),
		startArm(t, rt, "none", pleg.Options{
			Triggers: []trigger.SourceName{}, RelistPeriod: 50 * time.Millisecond, StatusDeadline: patience,
		}),
	}
}

// TestDetails follows one container from its start to its removal and compares all
// that is told of it, in events and in snapshots, with what the runtime and the kernel
// say.
func TestDetails(t *testing.T) {
	rt := runtimetest.Start(t, testruntime.Options{})
	s := &stage{TB: t, ctx: t.Context(), rt: rt, arms: detailArms(t, rt)}
	labels := map[string]string{"app": "web", "tier": "front"}
	annotations := map[string]string{"example.com/owner": "shop", "example.com/note": "two\nlines"}
	begin := time.Now()
	p := s.pod(testruntime.PodSpec{Name: "details", QoS: testruntime.Burstable, Labels: labels, Annotations: annotations})
	c := s.container(p, "main", 3, "sleep")
	s.must(c.Ready(s.ctx))
	pid, err := c.HostPid(s.ctx)
	s.must(err)
	id := v2ID(t, c.CgroupPath())

	checkSandbox := func(arm, what string, sb event.Sandbox) {
		t.Helper()
		if sb.ID != p.SandboxID || !maps.Equal(sb.Labels, labels) {
			t.Errorf("%s: %s: sandbox %s with labels %v, want %s with %v", arm, what, sb.ID, sb.Labels, p.SandboxID, labels)
		}
		for k, v := range annotations {
			if sb.Annotations[k] != v {
				t.Errorf("%s: %s: annotation %s is %q, want %q", arm, what, k, sb.Annotations[k], v)
			}
		}
		if sb.Annotations["kubernetes.io/config.source"] != "api" {
			t.Errorf("%s: %s: the kubelet's annotations are missing: %v", arm, what, sb.Annotations)
		}
	}
	checkContainer := func(arm, what string, got event.Container, created time.Time) {
		t.Helper()
		if want := (event.Container{ID: c.ID, Name: "main", Attempt: 3, Image: testruntime.Image}); got != want {
			t.Errorf("%s: %s: container %+v, want %+v", arm, what, got, want)
		}
		if created.Before(begin) || created.After(time.Now()) {
			t.Errorf("%s: %s: made at %s", arm, what, created)
		}
	}
	checkStatus := func(arm, what string, st *event.Status, ended bool) {
		t.Helper()
		if st == nil {
			t.Fatalf("%s: %s: no details", arm, what)
		}
		if st.Pid != pid || st.CgroupPath != c.CgroupPath() || st.CgroupID != id {
			t.Errorf("%s: %s: pid %d, cgroup %s, ID %d; want %d, %s, %d", arm, what, st.Pid, st.CgroupPath, st.CgroupID, pid, c.CgroupPath(), id)
		}
		if st.StartedAt.Before(begin) || st.FinishedAt.IsZero() == ended || ended && st.FinishedAt.Before(st.StartedAt) {
			t.Errorf("%s: %s: started %s, finished %s", arm, what, st.StartedAt, st.FinishedAt)
		}
		switch {
		case !ended && (st.ExitCode != nil || st.Reason != ""):
			t.Errorf("%s: %s: it has ended already: %+v", arm, what, st)
		case ended && (st.ExitCode == nil || *st.ExitCode != 137 || st.Reason != "Error"):
			t.Errorf("%s: %s: ended with %v, reason %q", arm, what, st.ExitCode, st.Reason)
		}
	}
	checkSnapshot := func(a *arm, ended bool) {
		t.Helper()
		pods := a.g.Snapshot().Pods
		if len(pods) != 1 || len(pods[0].Sandboxes) != 1 || len(pods[0].Containers) != 1 {
			t.Fatalf("%s: snapshot %+v", a.name, pods)
		}
		checkSandbox(a.name, "snapshot", pods[0].Sandboxes[0].Sandbox)
		checkContainer(a.name, "snapshot", pods[0].Containers[0].Container, pods[0].Containers[0].CreatedAt)
		checkStatus(a.name, "snapshot", pods[0].Containers[0].Status, ended)
	}

	s.seen(c, event.ContainerStarted)
	for _, a := range s.arms {
		e := a.of(t, c, event.ContainerStarted)
		checkSandbox(a.name, "started", *e.Sandbox)
		checkContainer(a.name, "started", *e.Container, e.CreatedAt)
		checkStatus(a.name, "started", e.Status, false)
		checkSnapshot(a, false)
		checkReinspected(t, a, p, checkSandbox)
	}
	s.must(syscall.Kill(pid, syscall.SIGKILL))
	s.seen(c, event.ContainerDied)
	for _, a := range s.arms {
		e := a.of(t, c, event.ContainerDied)
		checkSandbox(a.name, "died", *e.Sandbox)
		checkContainer(a.name, "died", *e.Container, e.CreatedAt)
		checkStatus(a.name, "died", e.Status, true)
		checkSnapshot(a, true)
		start := a.of(t, c, event.ContainerStarted)
		if !start.Status.StartedAt.Equal(e.Status.StartedAt) {
			t.Errorf("%s: started at %s, and at its end at %s", a.name, start.Status.StartedAt, e.Status.StartedAt)
		}
	}
	s.must(p.Remove(s.ctx))
	s.seen(c, event.ContainerRemoved)
	for _, a := range s.arms {
		checkSandbox(a.name, "removed", *a.of(t, c, event.ContainerRemoved).Sandbox)
	}
}

// checkReinspected asks for a PodSync of a pod, which must carry its sandbox.
func checkReinspected(t *testing.T, a *arm, p *testruntime.Pod, check func(arm, what string, sb event.Sandbox)) {
	t.Helper()
	a.g.RequestReinspect(p.UID)
	isSync := func(e event.Event) bool { return e.Type == event.PodSync && e.Container == nil }
	a.await(t, "PodSync", func(events []event.Event) bool { return slices.ContainsFunc(events, isSync) })
	told := a.told()
	e := told[slices.IndexFunc(told, isSync)]
	if e.Sandbox == nil || !strings.HasPrefix(e.ID, p.UID+"/PodSync/") {
		t.Fatalf("%s: %+v", a.name, e)
	}
	check(a.name, "PodSync", *e.Sandbox)
}

// TestOutOfMemory asserts that a container which the kernel killed for its memory is
// told with that reason, and one that another process killed is not.
func TestOutOfMemory(t *testing.T) {
	testutil.Need(t, "cgroup", memoryController())
	rt := runtimetest.Start(t, testruntime.Options{})
	s := &stage{TB: t, ctx: t.Context(), rt: rt, arms: detailArms(t, rt)}
	p := s.pod(testruntime.PodSpec{Name: "oom", QoS: testruntime.Burstable})
	var made []*testruntime.Container
	for i := range 5 {
		c, err := p.RunContainer(s.ctx, testruntime.ContainerSpec{
			Name: "hog", Attempt: uint32(i), Args: []string{"memhog", fmt.Sprint(512 << 20)}, MemoryLimit: 32 << 20,
		})
		s.must(err)
		s.exited(c)
		made = append(made, c)
	}
	for _, c := range made {
		s.seen(c, event.ContainerDied)
		for _, a := range s.arms {
			st := a.of(t, c, event.ContainerDied).Status
			if st == nil || st.ExitCode == nil || *st.ExitCode != 137 || st.Reason != "OOMKilled" {
				t.Errorf("%s: attempt %d ended with %+v", a.name, c.Attempt, st)
			}
		}
	}
	for _, a := range s.arms {
		for _, c := range a.g.Snapshot().Pods[0].Containers {
			if c.Status == nil || c.Status.Reason != "OOMKilled" {
				t.Errorf("%s: in the snapshot, attempt %d ended with %+v", a.name, c.Container.Attempt, c.Status)
			}
		}
	}
	s.must(p.Remove(s.ctx))
}

// of returns the event of a type that was told of a container.
func (a *arm) of(t testing.TB, c *testruntime.Container, what event.Type) event.Event {
	t.Helper()
	for _, e := range a.told() {
		if e.Type == what && e.Container != nil && e.Container.ID == c.ID {
			return e
		}
	}
	t.Fatalf("%s: no %s of %s", a.name, what, c.Name)
	return event.Event{}
}

// v2ID is the kernel's ID of a cgroup in the v2 hierarchy; 0 if it is in none. It
// must be in some hierarchy.
func v2ID(t *testing.T, path string) uint64 {
	t.Helper()
	layout, err := cgroupfs.Detect()
	if err != nil {
		t.Fatal(err)
	}
	if layout.V2 != nil {
		if info, err := os.Stat(filepath.Join(layout.V2.Mountpoint, path)); err == nil {
			return info.Sys().(*syscall.Stat_t).Ino
		}
	}
	for _, h := range layout.V1 {
		if _, err := os.Stat(filepath.Join(h.Mountpoint, path)); err == nil {
			return 0
		}
	}
	t.Fatalf("%s is in no hierarchy", path)
	return 0
}

// memoryController says why no container's memory can be limited here.
func memoryController() error {
	layout, err := cgroupfs.Detect()
	if err != nil {
		return err
	}
	for _, h := range layout.V1 {
		if slices.Contains(h.Controllers, "memory") {
			return nil
		}
	}
	if layout.V2 != nil {
		data, err := os.ReadFile(filepath.Join(layout.V2.Mountpoint, "cgroup.controllers"))
		if err != nil {
			return err
		}
		if slices.Contains(strings.Fields(string(data)), "memory") {
			return nil
		}
	}
	return errors.New("no cgroup hierarchy has the memory controller")
}
