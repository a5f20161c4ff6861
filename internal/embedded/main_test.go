package embedded

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

const (
	created  = runtimeapi.ContainerState_CONTAINER_CREATED
	running  = runtimeapi.ContainerState_CONTAINER_RUNNING
	exited   = runtimeapi.ContainerState_CONTAINER_EXITED
	unknown  = runtimeapi.ContainerState_CONTAINER_UNKNOWN
	ready    = runtimeapi.PodSandboxState_SANDBOX_READY
	notReady = runtimeapi.PodSandboxState_SANDBOX_NOTREADY
)

// newRuntime makes a runtime that is closed with the test.
func newRuntime(t testing.TB, o Options) *Runtime {
	t.Helper()
	if o.Seed == 0 {
		o.Seed = 1
	}
	r := New(o)
	t.Cleanup(func() { r.Close() })
	return r
}

// runPod makes a pod with a fixed UID for its name.
func runPod(t testing.TB, r *Runtime, name string) (string, *runtimeapi.PodSandboxConfig) {
	t.Helper()
	config := PodConfig("default", name, fmt.Sprintf("00000000-0000-4000-8000-%012x", []byte(name)[:min(6, len(name))]), 0, BestEffort)
	id, err := r.RunPod(t.Context(), config)
	if err != nil {
		t.Fatalf("RunPod %s: %v", name, err)
	}
	return id, config
}

// startContainer makes and starts a container.
func startContainer(t testing.TB, r *Runtime, sandbox string, config *runtimeapi.PodSandboxConfig, name string, command ...string) string {
	t.Helper()
	id, err := r.Create(t.Context(), sandbox, ContainerConfig(config, name, 0, "image", command...))
	if err != nil {
		t.Fatalf("Create %s: %v", name, err)
	}
	if err := r.Start(t.Context(), id); err != nil {
		t.Fatalf("Start %s: %v", name, err)
	}
	return id
}

// stateOf is the state in the list; absent is -1.
func stateOf(t testing.TB, r *Runtime, id string) runtimeapi.ContainerState {
	t.Helper()
	list, err := r.Client().ListContainers(t.Context(), &runtimeapi.ContainerFilter{Id: id})
	if err != nil {
		t.Fatalf("ListContainers: %v", err)
	}
	if len(list) == 0 {
		return -1
	}
	return list[0].State
}

func sandboxStateOf(t testing.TB, r *Runtime, id string) runtimeapi.PodSandboxState {
	t.Helper()
	list, err := r.Client().ListPodSandbox(t.Context(), &runtimeapi.PodSandboxFilter{Id: id})
	if err != nil {
		t.Fatalf("ListPodSandbox: %v", err)
	}
	if len(list) == 0 {
		return -1
	}
	return list[0].State
}

func wantState(t testing.TB, r *Runtime, id string, want runtimeapi.ContainerState) {
	t.Helper()
	if got := stateOf(t, r, id); got != want {
		t.Errorf("container %.8s is %v, want %v", id, got, want)
	}
}

func wantCode(t testing.TB, err error, want codes.Code) {
	t.Helper()
	if got := status.Code(err); got != want {
		t.Errorf("error %v has code %v, want %v", err, got, want)
	}
}

// recorder is a mirror that writes down what it is told, and what the CRI shows
// at that moment.
type recorder struct {
	mu    sync.Mutex
	lines []string
	show  func(Cgroup) string
}

func (m *recorder) note(what string, cg Cgroup) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	line := what
	if m.show != nil {
		line += " " + m.show(cg)
	}
	m.lines = append(m.lines, line)
	return nil
}

func (m *recorder) told() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.lines)
}

func (m *recorder) PodAdded(string) error          { return m.note("pod added", Cgroup{}) }
func (m *recorder) Created(cg Cgroup) error        { return m.note("created", cg) }
func (m *recorder) Populated(cg Cgroup) error      { return m.note("populated", cg) }
func (m *recorder) Emptied(cg Cgroup) error        { return m.note("emptied", cg) }
func (m *recorder) Removed(cg Cgroup) error        { return m.note("removed", cg) }
func (m *recorder) PodRemoved(string) error        { return m.note("pod removed", Cgroup{}) }
func (m *recorder) Frozen(cg Cgroup, _ bool) error { return m.note("frozen", cg) }

// readEvents subscribes and collects events until the test ends.
type events struct {
	mu   sync.Mutex
	got  []*runtimeapi.ContainerEventResponse
	err  error
	over chan struct{}
}

func readEvents(ctx context.Context, r *Runtime) *events {
	e := &events{over: make(chan struct{})}
	ch := make(chan *runtimeapi.ContainerEventResponse)
	established := make(chan struct{})
	go func() {
		defer close(ch)
		err := r.Client().GetContainerEvents(ctx, ch, func(runtimeapi.RuntimeService_GetContainerEventsClient) { close(established) })
		e.mu.Lock()
		e.err = err
		e.mu.Unlock()
	}()
	go func() {
		defer close(e.over)
		for ev := range ch {
			e.mu.Lock()
			e.got = append(e.got, ev)
			e.mu.Unlock()
		}
	}()
	<-established
	return e
}

// lines gives the events so far as "<name> <type> <state>".
func (e *events) lines() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var out []string
	for _, ev := range e.got {
		what := "sandbox"
		shown := ev.PodSandboxStatus.GetState().String()
		if ev.ContainerId != ev.PodSandboxStatus.GetId() {
			what, shown = "container", "gone"
			for _, c := range ev.ContainersStatuses {
				if c.Id == ev.ContainerId {
					shown = c.State.String()
				}
			}
		}
		out = append(out, fmt.Sprintf("%s %v %s", what, ev.ContainerEventType, shown))
	}
	return out
}

func equalLines(t testing.TB, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n got %q\nwant %q", what, got, want)
	}
}

func infoOf(t testing.TB, info map[string]string) map[string]any {
	t.Helper()
	var out map[string]any
	if err := json.Unmarshal([]byte(info["info"]), &out); err != nil {
		t.Fatalf("info %q: %v", info, err)
	}
	return out
}

func unimplemented() error { return status.Error(codes.Unimplemented, "unknown method") }

// waitFor waits until ok, which no channel tells of.
func waitFor(t testing.TB, what string, ok func() bool) {
	t.Helper()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(patience); !ok(); <-ticker.C {
		if time.Now().After(deadline) {
			t.Fatalf("waited %v for %s", patience, what)
		}
	}
}
