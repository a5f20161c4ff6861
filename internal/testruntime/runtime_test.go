package testruntime_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/hybrid-pleg/hybrid-pleg/internal/testruntime"
	"github.com/hybrid-pleg/hybrid-pleg/internal/testruntime/runtimetest"
)

// These tests run the real thing. They need root.

func TestContainerTellsItsExitCode(t *testing.T) {
	r := runtimetest.Start(t, testruntime.Options{})
	pod := runPod(t, r, testruntime.PodSpec{})
	c := runContainer(t, pod, testruntime.ContainerSpec{Args: []string{"exit", "3"}})

	status, err := c.Wait(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if status.ExitCode != 3 || status.Reason != "Error" {
		t.Errorf("ended with code %d, reason %q; want 3, Error", status.ExitCode, status.Reason)
	}
}

func TestPodLooksLikeTheKubelets(t *testing.T) {
	r := runtimetest.Start(t, testruntime.Options{})
	pod := runPod(t, r, testruntime.PodSpec{
		Namespace: "shop", Name: "cart", QoS: testruntime.Burstable,
		Labels: map[string]string{"app": "cart"},
	})
	c := runContainer(t, pod, testruntime.ContainerSpec{Name: "web", Attempt: 2})

	list, err := r.Client().ListContainers(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != 1 {
		t.Fatalf("%d containers are listed, want 1", len(list))
	}
	got := list[0]
	if got.Id != c.ID || got.PodSandboxId != pod.SandboxID || got.Metadata.Name != "web" || got.Metadata.Attempt != 2 {
		t.Errorf("listed container is %v", got)
	}
	for label, want := range map[string]string{
		"io.kubernetes.pod.uid":        pod.UID,
		"io.kubernetes.pod.name":       "cart",
		"io.kubernetes.pod.namespace":  "shop",
		"io.kubernetes.container.name": "web",
	} {
		if got.Labels[label] != want {
			t.Errorf("label %s is %q, want %q", label, got.Labels[label], want)
		}
	}
	if want := r.CgroupRoot() + "/kubepods/burstable/pod" + pod.UID + "/" + c.ID; c.CgroupPath() != want {
		t.Errorf("cgroup is %s, want %s", c.CgroupPath(), want)
	}
	if !slices.ContainsFunc(r.Leftovers(), func(s string) bool {
		return strings.HasPrefix(s, "cgroup ") && strings.HasSuffix(s, c.CgroupPath())
	}) {
		t.Errorf("the container is not in the cgroup %s, but: %q", c.CgroupPath(), r.Leftovers())
	}
}

func TestExecReturnsOutput(t *testing.T) {
	r := runtimetest.Start(t, testruntime.Options{})
	c := runContainer(t, runPod(t, r, testruntime.PodSpec{}), testruntime.ContainerSpec{})

	out, err := c.Exec(t.Context(), testruntime.Program, "echo", "hello", "there")
	if err != nil || out != "hello there\n" {
		t.Errorf("exec printed %q, error %v", out, err)
	}
	if _, err := c.Exec(t.Context(), testruntime.Program, "exit", "4"); err == nil {
		t.Error("no error from a command that ends with code 4")
	}
}

func TestStopHonoursGrace(t *testing.T) {
	r := runtimetest.Start(t, testruntime.Options{})
	pod := runPod(t, r, testruntime.PodSpec{})
	for _, tt := range []struct {
		part  string
		grace time.Duration
		want  int32
	}{
		{"sleep", time.Minute, 143},
		{"ignore-term", time.Second, 137},
		{"sleep", 0, 137},
	} {
		t.Run(fmt.Sprintf("%s %s", tt.part, tt.grace), func(t *testing.T) {
			c := runContainer(t, pod, testruntime.ContainerSpec{Args: []string{tt.part}})
			if err := c.Ready(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := c.Stop(t.Context(), tt.grace); err != nil {
				t.Fatal(err)
			}
			status, err := c.Status(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if status.ExitCode != tt.want {
				t.Errorf("ended with code %d, want %d", status.ExitCode, tt.want)
			}
			if err := c.Remove(t.Context()); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestSecondSandboxOfAPod(t *testing.T) {
	r := runtimetest.Start(t, testruntime.Options{})
	first := runPod(t, r, testruntime.PodSpec{})
	if err := first.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	second, err := first.NewSandbox(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if second.UID != first.UID || second.Attempt != 1 || second.SandboxID == first.SandboxID {
		t.Errorf("second sandbox is %+v, first was %+v", second, first)
	}
	c := runContainer(t, second, testruntime.ContainerSpec{})
	// The old sandbox goes; the pod's cgroup is still in use.
	if err := first.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	status, err := c.Status(t.Context())
	if err != nil || status.State != runtimeapi.ContainerState_CONTAINER_RUNNING {
		t.Errorf("the container in the second sandbox is %v, error %v", status.GetState(), err)
	}
	if err := second.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, line := range r.Leftovers() {
		if strings.Contains(line, first.UID) {
			t.Errorf("left of the pod: %s", line)
		}
	}
}

func TestContainersOutliveContainerd(t *testing.T) {
	r := runtimetest.Start(t, testruntime.Options{})
	c := runContainer(t, runPod(t, r, testruntime.PodSpec{}), testruntime.ContainerSpec{})
	for _, end := range []struct {
		how string
		do  func()
	}{
		{"killed", r.Kill},
		{"stopped", r.Stop},
		{"running", func() {}},
	} {
		t.Run(end.how, func(t *testing.T) {
			before := r.Pid()
			end.do()
			if err := r.Restart(t.Context()); err != nil {
				t.Fatal(err)
			}
			if r.Pid() == before || r.Pid() == 0 {
				t.Errorf("containerd's pid was %d and is %d", before, r.Pid())
			}
			status, err := c.Status(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if status.State != runtimeapi.ContainerState_CONTAINER_RUNNING {
				t.Errorf("the container is %s", status.State)
			}
		})
	}
}

func TestPIDNamespaces(t *testing.T) {
	r := runtimetest.Start(t, testruntime.Options{})
	for name, mode := range map[string]testruntime.PIDMode{
		"container": testruntime.PIDContainer, "pod": testruntime.PIDPod, "node": testruntime.PIDNode,
	} {
		t.Run(name, func(t *testing.T) {
			pod := runPod(t, r, testruntime.PodSpec{PID: mode})
			a := runContainer(t, pod, testruntime.ContainerSpec{Name: "a"})
			b := runContainer(t, pod, testruntime.ContainerSpec{Name: "b"})
			shared := pidNamespace(t, a) == pidNamespace(t, b)
			host, err := os.Readlink("/proc/self/ns/pid")
			if err != nil {
				t.Fatal(err)
			}
			if wantShared := mode != testruntime.PIDContainer; shared != wantShared {
				t.Errorf("namespace shared between containers: %v, want %v", shared, wantShared)
			}
			if isHost := pidNamespace(t, a) == host; isHost != (mode == testruntime.PIDNode) {
				t.Errorf("the containers are in the host's PID namespace: %v", isHost)
			}
		})
	}
}

func TestManyAtOnce(t *testing.T) {
	const pods, each = 5, 4
	r := runtimetest.Start(t, testruntime.Options{})
	var wg sync.WaitGroup
	for range pods {
		wg.Go(func() {
			pod, err := r.RunPod(t.Context(), testruntime.PodSpec{})
			if err != nil {
				t.Error(err)
				return
			}
			for i := range each {
				wg.Go(func() {
					_, err := pod.RunContainer(t.Context(), testruntime.ContainerSpec{Name: fmt.Sprint("c", i)})
					if err != nil {
						t.Error(err)
					}
				})
			}
		})
	}
	wg.Wait()
	list, err := r.Client().ListContainers(t.Context(), &runtimeapi.ContainerFilter{
		State: &runtimeapi.ContainerStateValue{State: runtimeapi.ContainerState_CONTAINER_RUNNING},
	})
	if err != nil || len(list) != pods*each {
		t.Errorf("%d containers run, want %d; error %v", len(list), pods*each, err)
	}
}

func TestCloseRemovesEverything(t *testing.T) {
	for name, before := range map[string]func(*testruntime.Runtime){
		"containerd running": func(*testruntime.Runtime) {},
		"containerd killed":  (*testruntime.Runtime).Kill,
	} {
		t.Run(name, func(t *testing.T) {
			r := runtimetest.Start(t, testruntime.Options{})
			pod := runPod(t, r, testruntime.PodSpec{PID: testruntime.PIDPod})
			runContainer(t, pod, testruntime.ContainerSpec{Name: "deaf", Args: []string{"ignore-term"}})
			runContainer(t, pod, testruntime.ContainerSpec{Name: "family", Args: []string{"orphans", "3"}})
			for _, kind := range []string{"process", "cgroup", "mount", "directory"} {
				if !slices.ContainsFunc(r.Leftovers(), func(s string) bool { return strings.HasPrefix(s, kind) }) {
					t.Errorf("a running runtime shows no %s: %q", kind, r.Leftovers())
				}
			}
			before(r)
			for range 2 {
				if err := r.Close(); err != nil {
					t.Fatal(err)
				}
			}
			if left := r.Leftovers(); len(left) > 0 {
				t.Errorf("left behind:\n%s", strings.Join(left, "\n"))
			}
		})
	}
}

func TestKubeletsDefaultCgroup(t *testing.T) {
	for _, pattern := range []string{"/sys/fs/cgroup/kubepods", "/sys/fs/cgroup/*/kubepods"} {
		if pods, _ := filepath.Glob(pattern); len(pods) > 0 {
			t.Skipf("this host has pods of its own: %s", pods[0])
		}
	}
	r := runtimetest.Start(t, testruntime.Options{CgroupRoot: "/"})
	pod := runPod(t, r, testruntime.PodSpec{QoS: testruntime.Guaranteed})
	if want := "/kubepods/pod" + pod.UID; pod.CgroupPath() != want {
		t.Errorf("cgroup is %s, want %s", pod.CgroupPath(), want)
	}
	if left := strings.Join(r.Leftovers(), "\n"); !strings.Contains(left, pod.CgroupPath()) {
		t.Errorf("the pod's cgroup is not among\n%s", left)
	}
}

func runPod(t *testing.T, r *testruntime.Runtime, spec testruntime.PodSpec) *testruntime.Pod {
	t.Helper()
	pod, err := r.RunPod(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	return pod
}

func runContainer(t *testing.T, pod *testruntime.Pod, spec testruntime.ContainerSpec) *testruntime.Container {
	t.Helper()
	c, err := pod.RunContainer(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// waitFor polls until done says so; what is for the message when it never does.
func waitFor(t *testing.T, what string, done func() bool) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	for tick := time.Tick(time.Millisecond); !done(); {
		select {
		case <-tick:
		case <-deadline:
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// pidNamespace returns the PID namespace of the container's first process.
func pidNamespace(t *testing.T, c *testruntime.Container) string {
	t.Helper()
	pid, err := c.HostPid(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ns, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", pid))
	if err != nil {
		t.Fatal(err)
	}
	return ns
}
