package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/internal/testruntime"
	"github.com/hybrid-pleg/hybrid-pleg/internal/testruntime/runtimetest"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
)

// patience bounds a failing test, and says nothing about speed.
const patience = time.Minute

// TestContainerd runs both generators as programs beside a real containerd.
func TestContainerd(t *testing.T) {
	rt := runtimetest.Start(t, testruntime.Options{})
	generic := start(t, rt, "--relist-period", "200ms")
	// With a period that the test does not last for: it looks at the beginning, and
	// then only when the runtime announces that something stopped.
	evented := start(t, rt, "--relist-period", "1h", "--evented")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()

	pod, err := rt.RunPod(ctx, testruntime.PodSpec{Name: "web", Namespace: "shop"})
	if err != nil {
		t.Fatal(err)
	}
	c, err := pod.RunContainer(ctx, testruntime.ContainerSpec{Name: "app", Attempt: 2})
	if err != nil {
		t.Fatal(err)
	}
	started := generic.await(ctx, t, c.ID, event.ContainerStarted)
	if err := c.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	if err := c.Stop(ctx, 0); err != nil {
		t.Fatal(err)
	}
	died := generic.await(ctx, t, c.ID, event.ContainerDied)
	early := evented.await(ctx, t, c.ID, event.ContainerDied)
	if err := pod.Remove(ctx); err != nil {
		t.Fatal(err)
	}
	removed := generic.await(ctx, t, c.ID, event.ContainerRemoved)
	generic.await(ctx, t, pod.SandboxID, event.SandboxRemoved)

	for _, e := range []*event.Event{started, died, removed, early} {
		checkNames(t, e, pod, c)
	}
	if started.Detection.FoundBy != event.FoundPeriodic || died.Detection.FoundBy != event.FoundPeriodic {
		t.Errorf("the generic generator found them by %q and %q", started.Detection.FoundBy, died.Detection.FoundBy)
	}
	if early.Detection.FoundBy != event.FoundEarly || early.Detection.Trigger != "cri" {
		t.Errorf("the evented generator found it by %q, trigger %q", early.Detection.FoundBy, early.Detection.Trigger)
	}
	for _, e := range []*event.Event{died, early} {
		if e.Status == nil || e.Status.ExitCode == nil || *e.Status.ExitCode != 137 || e.Status.FinishedAt.IsZero() {
			t.Errorf("a container that was killed ended with %+v", e.Status)
		}
	}
	if started.Status == nil || started.Status.StartedAt.IsZero() || started.Status.ExitCode != nil {
		t.Errorf("a container that was started has the status %+v", started.Status)
	}

	for _, p := range []*program{generic, evented} {
		if code := p.stop(t, syscall.SIGTERM); code != 0 {
			t.Errorf("%v ended with status %d", p.cmd.Args, code)
		}
		checkNumbers(t, p.told())
	}
	want := map[string][]event.Type{
		c.ID:          {event.ContainerStarted, event.ContainerDied, event.ContainerRemoved},
		pod.SandboxID: {event.SandboxStarted, event.SandboxDied, event.SandboxRemoved},
	}
	if got := sequences(generic.told()); !reflect.DeepEqual(got, want) {
		t.Errorf("the generic generator told %v, want %v", got, want)
	}
}

func checkNames(t *testing.T, e *event.Event, pod *testruntime.Pod, c *testruntime.Container) {
	t.Helper()
	if e.Pod != (event.Pod{UID: pod.UID, Namespace: "shop", Name: "web"}) {
		t.Errorf("%s is of pod %+v", e.ID, e.Pod)
	}
	if e.Container.Name != "app" || e.Container.Attempt != 2 || e.Container.Image == "" {
		t.Errorf("%s is of container %+v", e.ID, e.Container)
	}
	if e.Sandbox == nil || e.Sandbox.ID != pod.SandboxID {
		t.Errorf("%s is of sandbox %+v, want %s", e.ID, e.Sandbox, pod.SandboxID)
	}
	if e.Detection.ObservedAt.IsZero() || e.Time.Before(e.Detection.ObservedAt) {
		t.Errorf("%s was observed at %s and told at %s", e.ID, e.Detection.ObservedAt, e.Time)
	}
}

func checkNumbers(t *testing.T, told []event.Event) {
	t.Helper()
	for i := range told {
		if told[i].Sequence != uint64(i+1) || told[i].Epoch != told[0].Epoch {
			t.Errorf("event %d has the number %d of epoch %s", i+1, told[i].Sequence, told[i].Epoch)
		}
	}
}

// program is a kubelet-pleg that runs.
type program struct {
	cmd   *exec.Cmd
	read  chan error // how reading its output ended
	ready chan struct{}

	mu     sync.Mutex
	events []event.Event
	more   chan struct{} // closed and renewed with each event
	log    bytes.Buffer
}

// start starts the program and waits until it has listed everything.
func start(t *testing.T, rt *testruntime.Runtime, args ...string) *program {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &program{
		cmd:   exec.Command(self, append([]string{"--runtime-endpoint", rt.Endpoint()}, args...)...),
		read:  make(chan error, 1),
		ready: make(chan struct{}),
		more:  make(chan struct{}),
	}
	p.cmd.Env = append(os.Environ(), asProgram+"=1")
	p.cmd.Stderr = p
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { p.read <- p.collect(out) }()
	t.Cleanup(func() {
		if p.cmd.ProcessState == nil {
			p.stop(t, syscall.SIGKILL)
		}
		if t.Failed() {
			p.mu.Lock()
			defer p.mu.Unlock()
			t.Logf("the log of %v:\n%s", p.cmd.Args, p.log.String())
		}
	})
	select {
	case <-p.ready:
	case <-time.After(patience):
		t.Fatalf("%v did not list within %s", p.cmd.Args, patience)
	}
	return p
}

// Write takes the program's log.
func (p *program) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := strings.Contains(p.log.String(), "listed for the first time")
	n, err := p.log.Write(b)
	if !before && strings.Contains(p.log.String(), "listed for the first time") {
		close(p.ready)
	}
	return n, err
}

func (p *program) collect(r io.Reader) error {
	dec := json.NewDecoder(r)
	dec.DisallowUnknownFields()
	for {
		var e event.Event
		if err := dec.Decode(&e); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		p.mu.Lock()
		p.events = append(p.events, e)
		close(p.more)
		p.more = make(chan struct{})
		p.mu.Unlock()
	}
}

func (p *program) told() []event.Event {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.events)
}

// await waits for the event of a type of a container or sandbox.
func (p *program) await(ctx context.Context, t *testing.T, id string, typ event.Type) *event.Event {
	t.Helper()
	for {
		p.mu.Lock()
		events, more := slices.Clone(p.events), p.more
		p.mu.Unlock()
		if i := slices.IndexFunc(events, func(e event.Event) bool { return e.ID == id+"/"+string(typ) }); i >= 0 {
			return &events[i]
		}
		select {
		case <-more:
		case <-ctx.Done():
			t.Fatalf("%v told no %s of %s, but %d events", p.cmd.Args, typ, id, len(events))
		}
	}
}

// sequences are the types told of each container and sandbox.
func sequences(told []event.Event) map[string][]event.Type {
	out := make(map[string][]event.Type)
	for _, e := range told {
		if e.Type != event.PodSync {
			id, _, _ := strings.Cut(e.ID, "/")
			out[id] = append(out[id], e.Type)
		}
	}
	return out
}

// stop ends the program with a signal and returns its exit status.
func (p *program) stop(t *testing.T, s syscall.Signal) int {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Errorf("signal %v: %v", p.cmd.Args, err)
	}
	if err := <-p.read; err != nil {
		t.Errorf("the output of %v: %v", p.cmd.Args, err)
	}
	_ = p.cmd.Wait() // the status says it
	return p.cmd.ProcessState.ExitCode()
}
