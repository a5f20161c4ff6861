package embedded

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	cri "k8s.io/cri-client/pkg"
)

// patience is for calls that are to succeed, however slow the machine.
const patience = time.Minute

// serve offers a runtime on a socket and connects cri-client to it.
func serve(t *testing.T, o Options, streaming bool) (*Runtime, *Server, internalapi.RuntimeService) {
	t.Helper()
	r := newRuntime(t, o)
	s, err := Serve(t.Context(), r, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return r, s, connect(t, s, patience, streaming)
}

func connect(t *testing.T, s *Server, timeout time.Duration, streaming bool) internalapi.RuntimeService {
	t.Helper()
	c, err := cri.NewRemoteRuntimeServiceBuilder().WithEndpoint(s.Endpoint()).
		WithConnectionTimeout(timeout).WithUseStreaming(streaming).Build(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(context.Background()) })
	return c
}

func TestARealClient(t *testing.T) {
	_, _, c := serve(t, Options{}, false)
	ctx := t.Context()
	if v, err := c.Version(ctx, "v1"); err != nil || v.RuntimeName != RuntimeName {
		t.Errorf("Version: %v, %v", v, err)
	}
	if s, err := c.Status(ctx, true); err != nil || len(s.Status.Conditions) != 2 || infoOf(t, s.Info)["containers"] != 0.0 {
		t.Errorf("Status: %v, %v", s, err)
	}
	if rc, err := c.RuntimeConfig(ctx); err != nil || rc.Linux.CgroupDriver != runtimeapi.CgroupDriver_CGROUPFS {
		t.Errorf("RuntimeConfig: %v, %v", rc, err)
	}

	events := make(chan *runtimeapi.ContainerEventResponse)
	subscribed := make(chan struct{})
	streamCtx, stop := context.WithCancel(ctx)
	streamed := make(chan error)
	go func() {
		streamed <- c.GetContainerEvents(streamCtx, events, func(s runtimeapi.RuntimeService_GetContainerEventsClient) {
			if _, err := s.Header(); err != nil {
				t.Errorf("Header: %v", err)
			}
			close(subscribed)
		})
	}()
	<-subscribed
	expect := func(id string, want runtimeapi.ContainerEventType) {
		t.Helper()
		if ev := <-events; ev.ContainerId != id || ev.ContainerEventType != want {
			t.Errorf("event %v of %.8s, want %v of %.8s", ev.ContainerEventType, ev.ContainerId, want, id)
		}
	}

	config := PodConfig("default", "p", "uid", 0, Burstable)
	pod, err := c.RunPodSandbox(ctx, config, "")
	if err != nil {
		t.Fatal(err)
	}
	expect(pod, runtimeapi.ContainerEventType_CONTAINER_CREATED_EVENT)
	expect(pod, runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT)
	id, err := c.CreateContainer(ctx, pod, ContainerConfig(config, "c", 0, "image"), config)
	if err != nil {
		t.Fatal(err)
	}
	expect(id, runtimeapi.ContainerEventType_CONTAINER_CREATED_EVENT)
	if err := c.StartContainer(ctx, id); err != nil {
		t.Fatal(err)
	}
	expect(id, runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT)
	if list, err := c.ListContainers(ctx, nil); err != nil || len(list) != 1 || list[0].State != running || list[0].PodSandboxId != pod {
		t.Errorf("ListContainers: %v, %v", list, err)
	}
	if err := c.UpdateContainerResources(ctx, id, nil); err != nil {
		t.Errorf("UpdateContainerResources: %v", err)
	}
	if err := c.StopContainer(ctx, id, 30); err != nil {
		t.Fatal(err)
	}
	expect(id, runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT)
	if resp, err := c.ContainerStatus(ctx, id, true); err != nil || resp.Status.ExitCode != 143 || infoOf(t, resp.Info)["sandboxID"] != pod {
		t.Errorf("ContainerStatus: %v, %v", resp, err)
	}
	if resp, err := c.PodSandboxStatus(ctx, pod, true); err != nil || resp.Status.State != ready || len(resp.ContainersStatuses) != 1 {
		t.Errorf("PodSandboxStatus: %v, %v", resp, err)
	}
	if err := c.RemoveContainer(ctx, id); err != nil {
		t.Fatal(err)
	}
	expect(id, runtimeapi.ContainerEventType_CONTAINER_DELETED_EVENT)
	if err := c.StopPodSandbox(ctx, pod); err != nil {
		t.Fatal(err)
	}
	expect(pod, runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT)
	if list, err := c.ListPodSandbox(ctx, nil); err != nil || len(list) != 1 || list[0].State != notReady {
		t.Errorf("ListPodSandbox: %v, %v", list, err)
	}
	if err := c.RemovePodSandbox(ctx, pod); err != nil {
		t.Fatal(err)
	}
	expect(pod, runtimeapi.ContainerEventType_CONTAINER_DELETED_EVENT)
	_, err = c.ContainerStatus(ctx, id, false)
	wantCode(t, err, codes.NotFound)
	_, _, err = c.ExecSync(ctx, id, []string{"ls"}, time.Second)
	wantCode(t, err, codes.Unimplemented)
	if !strings.Contains(err.Error(), "ExecSync") || !strings.Contains(err.Error(), "in memory") {
		t.Errorf("the error explains nothing: %v", err)
	}
	stop()
	wantCode(t, <-streamed, codes.Canceled)
}

func TestStreamedLists(t *testing.T) {
	r, _, c := serve(t, Options{Lag: NoLag()}, true)
	pod, config := runPod(t, r, "p")
	const n = listPart + 7
	for i := range n {
		c := ContainerConfig(config, "c", uint32(i), "image")
		if _, err := r.Create(t.Context(), pod, c); err != nil {
			t.Fatal(err)
		}
	}
	if list, err := c.ListContainers(t.Context(), nil); err != nil || len(list) != n {
		t.Errorf("%d containers, %v", len(list), err)
	}
	if list, err := c.ListPodSandbox(t.Context(), nil); err != nil || len(list) != 1 {
		t.Errorf("%d sandboxes, %v", len(list), err)
	}
	if r.Calls("StreamContainers").Total != 1 || r.Calls("ListContainers").Total != 0 {
		t.Error("the list was not streamed")
	}

	// Broken off after its first part.
	remove := r.Faults().Add(Fault{Method: "StreamContainers", Midway: true, Err: errClosed()})
	_, err := c.ListContainers(t.Context(), nil)
	wantCode(t, err, codes.Unavailable)
	remove()
	remove = r.Faults().Add(Fault{Method: "StreamPodSandboxes", Midway: true, Err: errClosed()})
	_, err = c.ListPodSandbox(t.Context(), nil)
	wantCode(t, err, codes.Unavailable)
	remove()

	// A runtime that does not have it.
	r.Faults().Add(Fault{Method: "StreamContainers", Err: unimplemented()})
	if list, err := c.ListContainers(t.Context(), nil); err != nil || len(list) != n {
		t.Errorf("%d containers, %v", len(list), err)
	}
	if r.Calls("ListContainers").Total != 1 {
		t.Error("cri-client did not fall back")
	}
}

func TestDamageOverTheWire(t *testing.T) {
	r, _, c := serve(t, Options{Lag: NoLag()}, false)
	_, one, _ := twoContainers(t, r)
	list := func(m Mangle) ([]*runtimeapi.Container, error) {
		defer r.Faults().Add(Fault{Method: "ListContainers", ID: one, Mangle: m})()
		return c.ListContainers(t.Context(), nil)
	}
	if got, err := list(MangleNil); err != nil || len(got) != 2 || got[0].GetId() != "" || got[0].GetMetadata() != nil {
		t.Errorf("nil: %v, %v", got, err)
	}
	if got, err := list(MangleUnknownState | MangleNilMetadata); err != nil || got[0].State != StrangeState || got[0].Metadata != nil {
		t.Errorf("unknown state: %v, %v", got, err)
	}
	_, err := list(MangleInvalidUTF8)
	wantCode(t, err, codes.Internal)
	_, err = list(MangleOversize)
	wantCode(t, err, codes.ResourceExhausted)
	if got, err := c.ListContainers(t.Context(), nil); err != nil || len(got) != 2 {
		t.Errorf("afterwards: %v, %v", got, err)
	}
}

func TestAHangingCallEndsWithItsDeadline(t *testing.T) {
	r, s, _ := serve(t, Options{Lag: NoLag()}, false)
	_, one, _ := twoContainers(t, r)
	hasty := connect(t, s, time.Second, false)
	r.Faults().Add(Fault{Method: "ContainerStatus", ID: one, Hang: true})
	_, err := hasty.ContainerStatus(t.Context(), one, false)
	wantCode(t, err, codes.DeadlineExceeded)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := r.WaitCalls(ctx, "ContainerStatus", func(s CallStats) bool { return s.InFlight == 0 && s.Failed == 1 }); err != nil {
		t.Errorf("the call is still under way: %v", err)
	}
}

func TestRestart(t *testing.T) {
	r, s, c := serve(t, Options{Lag: NoLag()}, false)
	pod, one, _ := twoContainers(t, r)
	streamed := make(chan error, 1)
	go func() {
		streamed <- c.GetContainerEvents(t.Context(), make(chan *runtimeapi.ContainerEventResponse), nil)
	}()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := r.WaitCalls(ctx, methodEvents, func(s CallStats) bool { return s.InFlight == 1 }); err != nil {
		t.Fatal(err)
	}
	s.Stop()
	s.Stop()
	if err := <-streamed; err == nil {
		t.Error("the stream ended without an error")
	}
	if _, err := c.ListContainers(t.Context(), nil); err == nil {
		t.Error("a stopped runtime answered")
	}
	if err := r.Exit(one, 255, "Unknown"); err != nil {
		t.Fatal(err)
	}
	r.MarkUnknown()
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	again := connect(t, s, patience, false)
	list, err := again.ListContainers(ctx, &runtimeapi.ContainerFilter{PodSandboxId: pod})
	if err != nil || len(list) != 2 || list[0].State != exited || list[1].State != unknown {
		t.Errorf("after the restart: %v, %v", list, err)
	}
	waitFor(t, "the first client to find its way back", func() bool {
		_, err := c.ListContainers(ctx, nil)
		return err == nil
	})
}

func TestSocketIsPrivateAndGoes(t *testing.T) {
	r := newRuntime(t, Options{})
	ctx, cancel := context.WithCancel(t.Context())
	s, err := Serve(ctx, r, "")
	if err != nil {
		t.Fatal(err)
	}
	path := strings.TrimPrefix(s.Endpoint(), "unix://")
	for what, want := range map[string]os.FileMode{path: os.ModeSocket | 0o600, filepath.Dir(path): os.ModeDir | 0o700} {
		if info, err := os.Stat(what); err != nil || info.Mode() != want {
			t.Errorf("%s: %v, %v; want %v", what, info.Mode(), err, want)
		}
	}
	cancel()
	waitFor(t, "the socket's directory to go", func() bool {
		_, err := os.Stat(filepath.Dir(path))
		return os.IsNotExist(err)
	})
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := s.Start(); err == nil {
		t.Error("a closed server was started")
	}
}

func TestSocketPathThatIsTaken(t *testing.T) {
	dir, err := os.MkdirTemp("", "pleg-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "s")
	r := newRuntime(t, Options{})

	// Left by a process that died.
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	s, err := Serve(t.Context(), r, path)
	if err != nil {
		t.Fatalf("a dead socket was in the way: %v", err)
	}
	defer s.Close()

	if _, err := Serve(t.Context(), r, path); err == nil {
		t.Error("a live socket was taken away from its server")
	}
	connect(t, s, patience, false)

	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Serve(t.Context(), r, file); err == nil {
		t.Error("a file was replaced by a socket")
	}
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
	if _, err := Serve(t.Context(), r, filepath.Join(dir, strings.Repeat("x", 100))); err == nil || !strings.Contains(err.Error(), "103") {
		t.Errorf("a path too long: %v", err)
	}
}

func TestImageService(t *testing.T) {
	r, s, _ := serve(t, Options{Lag: NoLag()}, false)
	twoContainers(t, r)
	c, err := cri.NewRemoteImageServiceBuilder().WithEndpoint(s.Endpoint()).WithConnectionTimeout(patience).Build(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	list, err := c.ListImages(t.Context(), nil)
	if err != nil || len(list) != 1 || list[0].RepoTags[0] != "image" {
		t.Errorf("ListImages: %v, %v", list, err)
	}
	if resp, err := c.ImageStatus(t.Context(), &runtimeapi.ImageSpec{Image: list[0].Id}, false); err != nil || resp.Image.GetId() != list[0].Id {
		t.Errorf("ImageStatus: %v, %v", resp, err)
	}
	if resp, err := c.ImageStatus(t.Context(), &runtimeapi.ImageSpec{Image: "none"}, false); err != nil || resp.Image != nil {
		t.Errorf("ImageStatus of none: %v, %v", resp, err)
	}
	if ref, err := c.PullImage(t.Context(), &runtimeapi.ImageSpec{Image: "new"}, nil, nil); err != nil || ref != imageID("new") {
		t.Errorf("PullImage: %v, %v", ref, err)
	}
}
