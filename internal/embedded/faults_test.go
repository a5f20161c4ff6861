package embedded

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// twoContainers is a pod with two containers that run.
func twoContainers(t *testing.T, r *Runtime) (pod, one, two string) {
	t.Helper()
	pod, config := runPod(t, r, "p")
	return pod, startContainer(t, r, pod, config, "one"), startContainer(t, r, pod, config, "two")
}

func listIDs(t *testing.T, r *Runtime) []string {
	t.Helper()
	list, err := r.Client().ListContainers(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, c := range list {
		out = append(out, c.GetId())
	}
	return out
}

func TestFaultErrorAndTimes(t *testing.T) {
	r := newRuntime(t, Options{Lag: NoLag()})
	twoContainers(t, r)
	r.Faults().Add(Fault{Method: "ListContainers", Times: 2, Err: status.Error(codes.Internal, "no")})
	for range 2 {
		_, err := r.Client().ListContainers(t.Context(), nil)
		wantCode(t, err, codes.Internal)
	}
	if got := len(listIDs(t, r)); got != 2 {
		t.Errorf("%d containers once the fault is spent, want 2", got)
	}
	if got := r.Calls("ListContainers"); got != (CallStats{Total: 3, Failed: 2, MaxInFlight: 1}) {
		t.Errorf("calls: %+v", got)
	}

	remove := r.Faults().Add(Fault{Err: status.Error(codes.Unavailable, "restarting")})
	_, err := r.Client().ListPodSandbox(t.Context(), nil)
	wantCode(t, err, codes.Unavailable)
	_, err = r.Client().Version(t.Context(), "")
	wantCode(t, err, codes.Unavailable)
	remove()
	remove()
	if _, err = r.Client().ListPodSandbox(t.Context(), nil); err != nil {
		t.Error(err)
	}
}

func TestFaultDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRuntime(t, Options{Lag: NoLag()})
		r.Faults().Add(Fault{Method: "ListContainers", Delay: time.Minute})
		begin := time.Now()
		listIDs(t, r)
		if got := time.Since(begin); got != time.Minute {
			t.Errorf("the call took %v", got)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := r.Client().ListContainers(ctx, nil)
		wantCode(t, err, codes.DeadlineExceeded)
	})
}

func TestFaultHangOfOneContainer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRuntime(t, Options{Lag: NoLag()})
		_, one, two := twoContainers(t, r)
		remove := r.Faults().Add(Fault{Method: "ContainerStatus", ID: one, Hang: true})

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := r.Client().ContainerStatus(ctx, one[:12], false)
		wantCode(t, err, codes.DeadlineExceeded)
		if _, err := r.Client().ContainerStatus(t.Context(), two, false); err != nil {
			t.Errorf("the other container: %v", err)
		}
		done := make(chan error)
		for range 2 {
			go func() {
				_, err := r.Client().ContainerStatus(t.Context(), one, false)
				done <- err
			}()
		}
		if err := r.WaitCalls(t.Context(), "ContainerStatus", func(s CallStats) bool { return s.InFlight == 2 }); err != nil {
			t.Fatal(err)
		}
		remove()
		for range 2 {
			if err := <-done; err != nil {
				t.Errorf("after the release: %v", err)
			}
		}
		if got := r.Calls("ContainerStatus"); got.MaxInFlight != 2 || got.InFlight != 0 || got.Total != 4 {
			t.Errorf("calls: %+v", got)
		}

		r.Faults().Add(Fault{Hang: true, Times: 1})
		go func() {
			_, err := r.Client().ListContainers(t.Context(), nil)
			done <- err
		}()
		synctest.Wait()
		r.Close()
		wantCode(t, <-done, codes.Unavailable)
	})
}

func TestFaultOfAListThatNamesTheContainer(t *testing.T) {
	r := newRuntime(t, Options{Lag: NoLag()})
	pod, one, _ := twoContainers(t, r)
	r.Faults().Add(Fault{Method: "ListContainers", ID: pod, Err: status.Error(codes.Internal, "no")})
	if got := len(listIDs(t, r)); got != 2 {
		t.Errorf("%d containers in the whole list, want 2", got)
	}
	_, err := r.Client().ListContainers(t.Context(), &runtimeapi.ContainerFilter{PodSandboxId: pod})
	wantCode(t, err, codes.Internal)
	if _, err = r.Client().ListContainers(t.Context(), &runtimeapi.ContainerFilter{Id: one}); err != nil {
		t.Error(err)
	}
}

func TestMangledLists(t *testing.T) {
	for name, c := range map[string]struct {
		what  Mangle
		check func(one *runtimeapi.Container, n int) bool
	}{
		"drop":          {MangleDrop, func(c *runtimeapi.Container, n int) bool { return n == 1 }},
		"nil":           {MangleNil, func(c *runtimeapi.Container, n int) bool { return c == nil && n == 2 }},
		"nil metadata":  {MangleNilMetadata, func(c *runtimeapi.Container, n int) bool { return c.Metadata == nil && n == 2 }},
		"duplicate":     {MangleDuplicate, func(c *runtimeapi.Container, n int) bool { return n == 3 }},
		"unknown state": {MangleUnknownState, func(c *runtimeapi.Container, n int) bool { return c.State == StrangeState }},
		"invalid UTF-8": {MangleInvalidUTF8, func(c *runtimeapi.Container, n int) bool {
			return !utf8.ValidString(c.Metadata.Name) && !utf8.ValidString(c.Labels["strange"])
		}},
		"several": {MangleUnknownState | MangleDuplicate, func(c *runtimeapi.Container, n int) bool {
			return c.State == StrangeState && n == 3
		}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRuntime(t, Options{Lag: NoLag()})
			_, one, two := twoContainers(t, r)
			remove := r.Faults().Add(Fault{Method: "ListContainers", ID: one, Mangle: c.what})
			list, err := r.Client().ListContainers(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if !c.check(list[0], len(list)) {
				t.Errorf("the list is %v", list)
			}
			if last := list[len(list)-1]; last.GetId() != two || last.State != running || last.Metadata == nil {
				t.Errorf("the other container is %v", last)
			}
			remove()
			list, err = r.Client().ListContainers(t.Context(), nil)
			if err != nil || len(list) != 2 || list[0].State != running || list[0].Metadata.GetName() != "one" || len(list[0].Labels) != 4 {
				t.Errorf("afterwards the list is %v, %v", list, err)
			}
		})
	}
}

func TestMangledSandboxes(t *testing.T) {
	r := newRuntime(t, Options{Lag: NoLag()})
	pod, _, _ := twoContainers(t, r)
	remove := r.Faults().Add(Fault{ID: pod, Mangle: MangleNilMetadata | MangleUnknownState | MangleDuplicate})
	list, err := r.Client().ListPodSandbox(t.Context(), nil)
	if err != nil || len(list) != 2 || list[1].Metadata != nil || list[1].State != StrangeState {
		t.Errorf("the list is %v, %v", list, err)
	}
	resp, err := r.PodSandboxStatus(t.Context(), &runtimeapi.PodSandboxStatusRequest{PodSandboxId: pod})
	if err != nil || resp.Status.Metadata != nil || resp.Status.State != StrangeState {
		t.Errorf("the status is %v, %v", resp, err)
	}
	remove()
	r.Faults().Add(Fault{Method: "PodSandboxStatus", Mangle: MangleNil})
	if resp, err = r.PodSandboxStatus(t.Context(), &runtimeapi.PodSandboxStatusRequest{PodSandboxId: pod}); err != nil || resp.Status != nil {
		t.Errorf("the status is %v, %v", resp, err)
	}
}

func TestMangledContainerStatus(t *testing.T) {
	r := newRuntime(t, Options{Lag: NoLag()})
	_, one, _ := twoContainers(t, r)
	ask := func(m Mangle) (*runtimeapi.ContainerStatusResponse, error) {
		defer r.Faults().Add(Fault{Method: "ContainerStatus", ID: one, Mangle: m})()
		return r.Client().ContainerStatus(t.Context(), one, false)
	}
	if resp, err := ask(MangleNil); err != nil || resp.Status != nil {
		t.Errorf("nil: %v, %v", resp, err)
	}
	if resp, err := ask(MangleNilMetadata); err == nil {
		t.Errorf("nil metadata: %v; cri-client refuses it", resp)
	}
	if resp, err := ask(MangleUnknownState | MangleInvalidUTF8); err != nil || resp.Status.State != StrangeState || utf8.ValidString(resp.Status.Message) {
		t.Errorf("unknown state: %v, %v", resp, err)
	}
	_, err := ask(MangleDrop)
	wantCode(t, err, codes.NotFound)
}

func TestOversizeWithinTheProcess(t *testing.T) {
	r := newRuntime(t, Options{Lag: NoLag()})
	twoContainers(t, r)
	remove := r.Faults().Add(Fault{Mangle: MangleOversize})
	_, err := r.Client().ListContainers(t.Context(), nil)
	wantCode(t, err, codes.ResourceExhausted)
	_, err = r.Client().ListPodSandbox(t.Context(), nil)
	wantCode(t, err, codes.ResourceExhausted)
	remove()
	if got := len(listIDs(t, r)); got != 2 {
		t.Errorf("%d containers, want 2", got)
	}
}

func TestEventStreamFaults(t *testing.T) {
	gone := status.Error(codes.Unavailable, "transport is closing")
	for name, c := range map[string]struct {
		fault Fault
		ends  error
	}{
		"end":   {Fault{Method: methodEvents, End: true, Times: 1}, io.EOF},
		"error": {Fault{Method: methodEvents, Err: gone, Times: 1}, gone},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRuntime(t, Options{Lag: NoLag()})
				open := readEvents(t.Context(), r)
				runPod(t, r, "before")
				synctest.Wait()
				r.Faults().Add(c.fault)
				<-open.over
				if !errors.Is(open.err, c.ends) || len(open.lines()) != 2 {
					t.Errorf("the open stream ended with %v after %q", open.err, open.lines())
				}
				ctx, stop := context.WithCancel(t.Context())
				again := readEvents(ctx, r)
				runPod(t, r, "after")
				synctest.Wait()
				if got := again.lines(); len(got) != 2 {
					t.Errorf("once the fault is spent, the events are %q", got)
				}
				stop()
				<-again.over
			})
		})
	}
}

func TestEventStreamThatEndsAtOnce(t *testing.T) {
	r := newRuntime(t, Options{})
	r.Faults().Add(Fault{Method: methodEvents, End: true})
	for range 3 {
		if err := r.Client().GetContainerEvents(t.Context(), nil, nil); !errors.Is(err, io.EOF) {
			t.Errorf("got %v, want EOF", err)
		}
	}
	if got := r.Calls(methodEvents); got.Total != 3 || got.InFlight != 0 {
		t.Errorf("calls: %+v", got)
	}
}

func TestEventStreamThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRuntime(t, Options{Lag: NoLag()})
		ctx, stop := context.WithCancel(t.Context())
		e := readEvents(ctx, r)
		remove := r.Faults().Add(Fault{Method: methodEvents, Hang: true})
		runPod(t, r, "p")
		time.Sleep(time.Hour)
		synctest.Wait()
		if got := e.lines(); len(got) != 0 {
			t.Errorf("while it hangs came %q", got)
		}
		remove()
		synctest.Wait()
		if got := e.lines(); len(got) != 2 {
			t.Errorf("afterwards there are %q", got)
		}
		r.Faults().Add(Fault{Method: methodEvents, Hang: true})
		stop()
		<-e.over
	})
}

func TestMangledEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRuntime(t, Options{Lag: NoLag()})
		pod, one, two := twoContainers(t, r)
		ctx, stop := context.WithCancel(t.Context())
		e := readEvents(ctx, r)
		r.Faults().Add(Fault{Method: methodEvents, ID: one, Mangle: MangleDrop})
		r.Faults().Add(Fault{Method: methodEvents, ID: two, Mangle: MangleDuplicate | MangleUnknownState})
		r.Faults().Add(Fault{Method: methodEvents, ID: pod, Mangle: MangleNil})
		if err := r.StopPod(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		equalLines(t, "events", e.lines(), []string{
			"container 97 CONTAINER_EXITED",
			"container 97 CONTAINER_EXITED",
			"container CONTAINER_STOPPED_EVENT gone", // the sandbox's, without a status to tell it by
		})
		stop()
		<-e.over
	})
}

func TestAFaultMustBeOfTheCRI(t *testing.T) {
	r := newRuntime(t, Options{})
	for _, do := range []func(){
		func() { r.Faults().Add(Fault{Method: "ListContainer"}) },
		func() { r.Calls("listContainers") },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Error("a method that the CRI does not have was taken")
				}
			}()
			do()
		}()
	}
}
