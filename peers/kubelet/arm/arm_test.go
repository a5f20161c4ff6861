package arm

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"reflect"
	"strconv"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/internal/output"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
	"k8s.io/kubernetes/pkg/kubelet/pleg"
)

// noon is when things happen.
var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func id(s string) kubecontainer.ContainerID {
	return kubecontainer.ContainerID{Type: "fake", ID: s}
}

// pod is a pod with a sandbox s and a container c.
func pod() *kubecontainer.Pod {
	return &kubecontainer.Pod{
		ID: "uid", Name: "web", Namespace: "shop",
		Containers: []*kubecontainer.Container{{ID: id("c"), Name: "app", Image: "image", PodSandboxID: "s", CreatedAt: noon.UnixNano()}},
		Sandboxes:  []*kubecontainer.Container{{ID: id("s"), PodSandboxID: "s"}},
	}
}

// status is what the generator's cache says of the pod.
func status(c kubecontainer.Status) *kubecontainer.PodStatus {
	c.ID, c.RestartCount = id("c"), 4
	return &kubecontainer.PodStatus{
		ID:                "uid",
		ContainerStatuses: []*kubecontainer.Status{&c},
		SandboxStatuses:   []*runtimeapi.PodSandboxStatus{{Id: "s", Metadata: &runtimeapi.PodSandboxMetadata{Attempt: 2}}},
	}
}

func listed(at time.Time, by event.FoundBy, pods ...*kubecontainer.Pod) *pleg.PodLifecycleEvent {
	return &pleg.PodLifecycleEvent{Type: listedMark, Data: &observation{at: at, foundBy: by, pods: pods}}
}

func says(typ pleg.PodLifeCycleEventType, id string) *pleg.PodLifecycleEvent {
	return &pleg.PodLifecycleEvent{ID: "uid", Type: typ, Data: id}
}

// TestTranslation follows one pod from its start to its end.
func TestTranslation(t *testing.T) {
	cache := kubecontainer.NewCache()
	tr := newTranslator(cache)
	name := event.Pod{UID: "uid", Namespace: "shop", Name: "web"}
	sandbox := &event.Sandbox{ID: "s", Attempt: 2}
	container := &event.Container{ID: "c", Name: "app", Attempt: 4, Image: "image"}
	code := int32(3)

	said := func(e *pleg.PodLifecycleEvent, want *event.Event) {
		t.Helper()
		got := tr.event(e, noon.Add(time.Second))
		if want != nil {
			want.Epoch, want.Time, want.Pod = tr.epoch, noon.Add(time.Second), name
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%v gave\n%+v, want\n%+v", e, got, want)
		}
	}
	startup := event.Detection{FoundBy: event.FoundStartup, ObservedAt: noon}
	said(listed(noon, event.FoundStartup, pod()), nil)
	cache.Set("uid", status(kubecontainer.Status{State: kubecontainer.ContainerStateRunning, StartedAt: noon}), nil, noon)
	said(says(pleg.ContainerStarted, "s"), &event.Event{
		Sequence: 1, ID: "s/SandboxStarted", Type: event.SandboxStarted, To: event.StateRunning, Sandbox: sandbox, Detection: startup,
	})
	said(says(pleg.ContainerStarted, "c"), &event.Event{
		Sequence: 2, ID: "c/ContainerStarted", Type: event.ContainerStarted, To: event.StateRunning,
		Sandbox: sandbox, Container: container, CreatedAt: noon, Status: &event.Status{StartedAt: noon}, Detection: startup,
	})
	said(says(pleg.ContainerChanged, "c"), nil)

	early := event.Detection{FoundBy: event.FoundEarly, Trigger: "cri", ObservedAt: noon.Add(time.Millisecond)}
	said(listed(noon.Add(time.Millisecond), event.FoundEarly, pod()), nil)
	cache.Set("uid", status(kubecontainer.Status{
		State: kubecontainer.ContainerStateExited, StartedAt: noon, FinishedAt: noon.Add(time.Second), ExitCode: 3, Reason: "Error", Message: "m",
	}), nil, noon)
	said(says(pleg.ContainerDied, "c"), &event.Event{
		Sequence: 3, ID: "c/ContainerDied", Type: event.ContainerDied, To: event.StateExited,
		Sandbox: sandbox, Container: container, CreatedAt: noon, Detection: early,
		Status: &event.Status{StartedAt: noon, FinishedAt: noon.Add(time.Second), ExitCode: &code, Reason: "Error", Message: "m"},
	})
	said(&pleg.PodLifecycleEvent{ID: "uid", Type: pleg.PodSync}, &event.Event{
		Sequence: 4, ID: "uid/PodSync/" + tr.epoch + "-4", Type: event.PodSync, Detection: early,
	})

	// Gone, with all that the cache had.
	periodic := event.Detection{FoundBy: event.FoundPeriodic, ObservedAt: noon.Add(time.Minute)}
	said(listed(noon.Add(time.Minute), event.FoundPeriodic), nil)
	cache.Delete("uid")
	said(says(pleg.ContainerRemoved, "c"), &event.Event{
		Sequence: 5, ID: "c/ContainerRemoved", Type: event.ContainerRemoved, To: event.StateNonExistent,
		Sandbox: sandbox, Container: container, CreatedAt: noon, Detection: periodic,
	})
	said(says(pleg.ContainerDied, "s"), &event.Event{
		Sequence: 6, ID: "s/SandboxDied", Type: event.SandboxDied, To: event.StateExited, Sandbox: sandbox, Detection: periodic,
	})
	said(says(pleg.ContainerRemoved, "s"), &event.Event{
		Sequence: 7, ID: "s/SandboxRemoved", Type: event.SandboxRemoved, To: event.StateNonExistent, Sandbox: sandbox, Detection: periodic,
	})

	if n := len(tr.book.told); n != 0 {
		t.Errorf("%d things are remembered that are gone", n)
	}
	said(listed(noon.Add(time.Hour), event.FoundPeriodic), nil)
	if n := len(tr.book.pods); n != 0 {
		t.Errorf("%d pods are remembered that are gone", n)
	}
}

// TestTranslationOfTheUntold has a container go that was listed, but never told of,
// and one that nothing is known of.
func TestTranslationOfTheUntold(t *testing.T) {
	tr := newTranslator(kubecontainer.NewCache())
	tr.event(listed(noon, event.FoundPeriodic, pod()), noon)
	tr.event(listed(noon, event.FoundPeriodic), noon)
	e := tr.event(says(pleg.ContainerDied, "c"), noon)
	if e.Container.Name != "app" || e.Pod.Name != "web" || e.Status != nil || e.StatusMissing != event.StatusGone {
		t.Errorf("a container that was listed before is told as %+v", e)
	}
	e = tr.event(says(pleg.ContainerDied, "other"), noon)
	if e.ID != "other/ContainerDied" || e.Pod != (event.Pod{UID: "uid"}) || *e.Container != (event.Container{ID: "other"}) {
		t.Errorf("a container that was not listed is told as %+v", e)
	}
}

// runtime lists pods, or fails.
type runtime struct {
	kubecontainer.Runtime
	pods []*kubecontainer.Pod
	err  error
}

func (r *runtime) GetPods(context.Context, bool) ([]*kubecontainer.Pod, error) { return r.pods, r.err }

func (r *runtime) GetPod(context.Context, types.UID) (*kubecontainer.Pod, error) {
	if r.err != nil {
		return nil, r.err
	}
	return r.pods[0], nil
}

func TestMarks(t *testing.T) {
	events := make(chan *pleg.PodLifecycleEvent, 3)
	rt := &runtime{err: errors.New("down")}
	o := &observedRuntime{Runtime: rt, events: events}
	list := func() { _, _ = o.GetPods(t.Context(), true) }
	look := func() { _, _ = o.GetPod(t.Context(), "uid") }
	list()
	look()
	rt.err, rt.pods = nil, []*kubecontainer.Pod{pod()}
	list()
	look()
	list()
	list() // for which there is no room
	close(events)
	var got []event.FoundBy
	for e := range events {
		o := e.Data.(*observation)
		if got = append(got, o.foundBy); len(o.pods) != 1 {
			t.Errorf("the mark of a relist %q has %d pods", o.foundBy, len(o.pods))
		}
	}
	if want := []event.FoundBy{event.FoundStartup, event.FoundEarly, event.FoundPeriodic}; !reflect.DeepEqual(got, want) {
		t.Errorf("the marks are %q, want %q", got, want)
	}
}

// TestEndOfTheOutput ends the writing in each way that it can end.
func TestEndOfTheOutput(t *testing.T) {
	for name, c := range map[string]struct {
		out  func() io.Writer
		ends bool // by itself
		err  string
	}{
		"stopped":         {out: func() io.Writer { return io.Discard }},
		"no more readers": {out: func() io.Writer { return failing{syscall.EPIPE} }, ends: true},
		"a full disk":     {out: func() io.Writer { return failing{syscall.ENOSPC} }, ends: true, err: "write events: no space left on device"},
		"a reader asleep": {out: func() io.Writer { r, w := io.Pipe(); t.Cleanup(func() { r.Close() }); return w }, err: "the output takes no more: the last events may not be written"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				events := make(chan *pleg.PodLifecycleEvent, 10)
				for i := range 10 {
					events <- says(pleg.ContainerStarted, strconv.Itoa(i))
				}
				out := c.out()
				tell := &telling{events: events, translator: newTranslator(kubecontainer.NewCache()), out: output.NewNDJSON(out), log: slog.New(slog.DiscardHandler)}
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- tell.run(ctx) }()
				synctest.Wait()
				if c.ends != (len(ended) == 1) {
					t.Errorf("it has ended by itself: %t, want %t", len(ended) == 1, c.ends)
				}
				cancel()
				err := <-ended
				if c.err == "" && err != nil || c.err != "" && (err == nil || err.Error() != c.err) {
					t.Errorf("it ended with %v, want %q", err, c.err)
				}
				if w, ok := out.(io.Closer); ok {
					w.Close() // so that the write that hangs ends
				}
			})
		})
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }
