package embedded

import (
	"testing"

	"google.golang.org/grpc/codes"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func TestSetState(t *testing.T) {
	r := newRuntime(t, Options{Lag: NoLag()})
	pod, config := runPod(t, r, "p")
	id := startContainer(t, r, pod, config, "c")
	for _, state := range []runtimeapi.ContainerState{unknown, exited, StrangeState, -5, created} {
		if err := r.SetState(id, state); err != nil {
			t.Fatal(err)
		}
		wantState(t, r, id, state)
		resp, err := r.Client().ContainerStatus(t.Context(), id, false)
		if err != nil || resp.Status.State != state {
			t.Errorf("status says %v, want %v (%v)", resp.GetStatus().GetState(), state, err)
		}
	}
	if err := r.ClearState(id); err != nil {
		t.Fatal(err)
	}
	wantState(t, r, id, running)

	// The next change that is true ends the pretence.
	if err := r.SetState(id, unknown); err != nil {
		t.Fatal(err)
	}
	if err := r.Exit(id, 0, ""); err != nil {
		t.Fatal(err)
	}
	wantState(t, r, id, exited)

	if err := r.SetSandboxState(pod, StrangeState); err != nil {
		t.Fatal(err)
	}
	if got := sandboxStateOf(t, r, pod); got != StrangeState {
		t.Errorf("sandbox is %v", got)
	}
	r.ClearStates()
	if got := sandboxStateOf(t, r, pod); got != ready {
		t.Errorf("sandbox is %v", got)
	}
	wantCode(t, r.SetState(pod, unknown), codes.NotFound)
	wantCode(t, r.SetSandboxState(id, ready), codes.NotFound)
}

func TestMarkUnknown(t *testing.T) {
	r := newRuntime(t, Options{Lag: NoLag()})
	pod, config := runPod(t, r, "p")
	runs := startContainer(t, r, pod, config, "runs")
	ended := startContainer(t, r, pod, config, "ended", "exit", "0")
	r.MarkUnknown()
	wantState(t, r, runs, unknown)
	wantState(t, r, ended, exited)
	r.ClearStates()
	wantState(t, r, runs, running)
}

func TestVanishAndReappear(t *testing.T) {
	m := &recorder{}
	r := newRuntime(t, Options{Lag: NoLag(), Mirror: m})
	pod, config := runPod(t, r, "p")
	id := startContainer(t, r, pod, config, "c")
	before := len(m.told())
	for _, which := range []string{id, pod} {
		if err := r.Vanish(which); err != nil {
			t.Fatal(err)
		}
	}
	wantState(t, r, id, -1)
	if got := sandboxStateOf(t, r, pod); got != -1 {
		t.Errorf("sandbox is %v", got)
	}
	_, err := r.Client().ContainerStatus(t.Context(), id, false)
	wantCode(t, err, codes.NotFound)
	_, err = r.PodSandboxStatus(t.Context(), &runtimeapi.PodSandboxStatusRequest{PodSandboxId: pod})
	wantCode(t, err, codes.NotFound)
	if _, _, n := r.Counts(); n != 1 || len(m.told()) != before {
		t.Errorf("%d containers run, the mirror was told %q", n, m.told())
	}
	if err := r.Exit(id, 9, ""); err != nil {
		t.Fatal(err)
	}
	wantState(t, r, id, -1)
	for _, which := range []string{id, pod} {
		if err := r.Reappear(which); err != nil {
			t.Fatal(err)
		}
	}
	wantState(t, r, id, exited)
	if got := sandboxStateOf(t, r, pod); got != ready {
		t.Errorf("sandbox is %v", got)
	}
}

func TestExitOfASandboxLeavesItsContainers(t *testing.T) {
	m := &recorder{}
	r := newRuntime(t, Options{Lag: NoLag(), Mirror: m})
	pod, config := runPod(t, r, "p")
	id := startContainer(t, r, pod, config, "c")
	if err := r.Freeze(id, true); err != nil {
		t.Fatal(err)
	}
	wantState(t, r, id, running)
	if err := r.Exit(pod, 0, ""); err != nil {
		t.Fatal(err)
	}
	if got := sandboxStateOf(t, r, pod); got != notReady {
		t.Errorf("sandbox is %v", got)
	}
	wantState(t, r, id, running)

	// The kubelet makes a second sandbox for the pod, in the same cgroup.
	config.Metadata.Attempt++
	if _, err := r.RunPod(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	if err := r.RemovePod(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	equalLines(t, "the mirror", m.told(), []string{
		"pod added", "created", "populated", // the first sandbox
		"created", "populated", "frozen",
		"emptied", "removed", // the first sandbox
		"created", "populated", // the second
		"emptied", "removed", // the container
	})
}
