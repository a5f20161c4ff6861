package stage

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	cri "k8s.io/cri-client/pkg"

	"github.com/hybrid-pleg/hybrid-pleg/internal/embedded"
	"github.com/hybrid-pleg/hybrid-pleg/internal/embedded/cgrouptree"
	"github.com/hybrid-pleg/hybrid-pleg/internal/embedded/workload"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// Over the socket and in the cgroups the same containers are to be seen.
func TestStage(t *testing.T) {
	t.Setenv("TMPDIR", shortTemp(t))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s, err := Start(ctx, Options{Seed: 1, Workload: workload.Options{Seed: 1}})
	if err != nil {
		t.Fatal(err)
	}
	c, err := cri.NewRemoteRuntimeServiceBuilder().WithEndpoint(s.Endpoint()).WithConnectionTimeout(time.Minute).Build(ctx)
	if err != nil {
		t.Fatal(err)
	}
	ch := make(chan *runtimeapi.ContainerEventResponse)
	streamed := make(chan struct{})
	go func() {
		defer close(streamed)
		defer close(ch)
		c.GetContainerEvents(ctx, ch, nil)
	}()
	seen := 0
	for ev := range ch {
		// A service runs until it is rolled out anew, minutes later.
		if ev.ContainerEventType != runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT || len(ev.ContainersStatuses) != 2 {
			continue
		}
		cg, err := s.Runtime().CgroupOf(ev.ContainerId)
		if err != nil {
			t.Error(err)
		}
		text, err := os.ReadFile(filepath.Join(s.CgroupRoot(), cgrouptree.Path(cg), "cgroup.events"))
		if err != nil || string(text) != "populated 1\nfrozen 0\n" {
			t.Errorf("the cgroup of a container that runs: %q, %v", text, err)
		}
		if seen++; seen == 3 {
			break
		}
	}
	if seen < 3 {
		t.Errorf("saw %d containers of services start, want 3", seen)
	}
	go func() {
		for range ch { // cri-client wants it drained
		}
	}()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	<-streamed
	c.Close(ctx)
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) != 0 {
		t.Errorf("left over: %v, %v", left, err)
	}
}

func TestAnEmptyStage(t *testing.T) {
	t.Setenv("TMPDIR", shortTemp(t))
	s, err := Start(t.Context(), Options{Empty: true, Lag: embedded.NoLag()})
	if err != nil {
		t.Fatal(err)
	}
	if sandboxes, containers, _ := s.Runtime().Counts(); sandboxes+containers != 0 {
		t.Errorf("%d sandboxes, %d containers", sandboxes, containers)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestStartThatFailsLeavesNothing(t *testing.T) {
	// Room for the cgroups, but not for the path of a socket.
	long := t.TempDir()
	t.Setenv("TMPDIR", filepath.Join(long, "absent"))
	if s, err := Start(t.Context(), Options{}); err == nil {
		s.Close()
		t.Error("started in a directory that does not exist")
	}
	for len(long) < 110 {
		long = filepath.Join(long, "a-rather-long-name")
	}
	if err := os.MkdirAll(long, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", long)
	if s, err := Start(t.Context(), Options{}); err == nil {
		s.Close()
		t.Error("started with a socket path that does not fit")
	}
	if left, err := os.ReadDir(long); err != nil || len(left) != 0 {
		t.Errorf("left over: %v, %v", left, err)
	}
}

// shortTemp is a directory whose path leaves room for a socket's name.
func shortTemp(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "pleg-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}
