package testruntime_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/hybrid-pleg/hybrid-pleg/internal/testruntime"
	"github.com/hybrid-pleg/hybrid-pleg/internal/testruntime/runtimetest"
)

// TestParts has the test image play each part that ends by itself.
func TestParts(t *testing.T) {
	r := runtimetest.Start(t, testruntime.Options{})
	pod := runPod(t, r, testruntime.PodSpec{})
	sharing := runPod(t, r, testruntime.PodSpec{PID: testruntime.PIDPod})
	for _, tt := range []struct {
		name   string
		spec   testruntime.ContainerSpec
		in     *testruntime.Pod
		code   int32
		reason string
		output string
	}{
		{name: "true", spec: part("true"), reason: "Completed"},
		{name: "tiny", spec: testruntime.ContainerSpec{Command: []string{testruntime.Tiny}}, reason: "Completed"},
		{name: "exit", spec: part("exit", "9", "10ms"), code: 9, reason: "Error"},
		{name: "sleep", spec: part("sleep", "10ms"), reason: "Completed", output: "ready\n"},
		{name: "second exec", spec: part("exec", "exec", "exit", "5"), code: 5, reason: "Error"},
		{name: "leader exits first", spec: part("leader-exit", "50ms", "7"), code: 7, reason: "Error"},
		{name: "tree", spec: part("tree", "3"), in: sharing, reason: "Completed"},
		{name: "orphans", spec: part("orphans", "3", "50ms"), reason: "Completed"},
		{name: "forkstorm", spec: part("forkstorm", "200", "500ms"), reason: "Completed", output: "execs="},
		{
			name: "out of memory",
			spec: testruntime.ContainerSpec{Args: []string{"memhog", "268435456"}, MemoryLimit: 32 << 20},
			code: 137, reason: "OOMKilled",
		},
		{name: "no such part", spec: part("dance"), code: 2, reason: "Error", output: "testimage dance: no such part\n"},
		{name: "wrong argument", spec: part("exit", "soon"), code: 2, reason: "Error", output: "testimage exit soon: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.in == nil {
				tt.in = pod
			}
			c := runContainer(t, tt.in, tt.spec)
			status, err := c.Wait(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if status.ExitCode != tt.code || status.Reason != tt.reason {
				t.Errorf("ended with code %d, reason %s; want %d, %s", status.ExitCode, status.Reason, tt.code, tt.reason)
			}
			if out, err := c.Output(); err != nil || !strings.HasPrefix(out, tt.output) {
				t.Errorf("printed %q, error %v; want %q", out, err, tt.output)
			}
			if err := c.Remove(t.Context()); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestLeaderExitLeavesTheContainerRunning(t *testing.T) {
	r := runtimetest.Start(t, testruntime.Options{})
	c := runContainer(t, runPod(t, r, testruntime.PodSpec{}), part("leader-exit", "1h", "0"))
	pid, err := c.HostPid(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// The third field is the main thread's state.
	waitFor(t, "the main thread to be a zombie", func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/stat", pid, pid))
		if err != nil {
			t.Fatal(err)
		}
		_, after, _ := strings.Cut(string(stat), ") ")
		return strings.HasPrefix(after, "Z")
	})
	status, err := c.Status(t.Context())
	if err != nil || status.State != runtimeapi.ContainerState_CONTAINER_RUNNING {
		t.Errorf("the container is %s, error %v", status.GetState(), err)
	}
}

func part(args ...string) testruntime.ContainerSpec {
	return testruntime.ContainerSpec{Args: args}
}
