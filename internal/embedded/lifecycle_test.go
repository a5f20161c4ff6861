package embedded

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func TestLifeOfAContainer(t *testing.T) {
	r := newRuntime(t, Options{Lag: NoLag()})
	pod, config := runPod(t, r, "p")
	if got := sandboxStateOf(t, r, pod); got != ready {
		t.Fatalf("sandbox is %v after RunPod", got)
	}
	id, err := r.Create(t.Context(), pod, ContainerConfig(config, "c", 2, "image", "run"))
	if err != nil {
		t.Fatal(err)
	}
	wantState(t, r, id, created)
	if err := r.Start(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	wantState(t, r, id, running)
	if err := r.Exit(id, 3, ""); err != nil {
		t.Fatal(err)
	}
	wantState(t, r, id, exited)

	resp, err := r.Client().ContainerStatus(t.Context(), id, false)
	if err != nil {
		t.Fatal(err)
	}
	s := resp.Status
	if s.ExitCode != 3 || s.Reason != "Error" || s.Metadata.Attempt != 2 || s.Image.Image != "image" ||
		s.CreatedAt > s.StartedAt || s.StartedAt > s.FinishedAt || s.StartedAt == 0 {
		t.Errorf("status is %v", s)
	}
	if err := r.Remove(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	wantState(t, r, id, -1)
	_, err = r.Client().ContainerStatus(t.Context(), id, false)
	wantCode(t, err, codes.NotFound)

	if err := r.RemovePod(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	if s, c, n := r.Counts(); s+c+n != 0 {
		t.Errorf("left over: %d sandboxes, %d containers, %d running", s, c, n)
	}
	if len(r.names)+len(r.parents) != 0 {
		t.Errorf("left over: %v %v", r.names, r.parents)
	}
}

func TestStatusTellsThePidWhileItRuns(t *testing.T) {
	r := newRuntime(t, Options{Lag: NoLag()})
	pod, config := runPod(t, r, "p")
	id := startContainer(t, r, pod, config, "c")
	cg, err := r.CgroupOf(id)
	if err != nil || cg.Pid == 0 {
		t.Fatalf("cgroup %+v, %v", cg, err)
	}
	pid := func() any {
		resp, err := r.Client().ContainerStatus(t.Context(), id, true)
		if err != nil {
			t.Fatal(err)
		}
		return infoOf(t, resp.Info)["pid"]
	}
	if got := pid(); got != float64(cg.Pid) {
		t.Errorf("pid is %v, want %d", got, cg.Pid)
	}
	if err := r.Exit(id, 0, ""); err != nil {
		t.Fatal(err)
	}
	if got := pid(); got != 0.0 {
		t.Errorf("pid is %v after the exit, want 0", got)
	}
}

// The kernel is first, and what is short is shown in full all the same.
func TestTheCRILagsBehindTheKernel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r *Runtime
		begin := time.Now()
		m := &recorder{}
		r = newRuntime(t, Options{Mirror: m, Lag: Lag{
			Start: Fixed(3 * time.Millisecond), Exit: Fixed(30 * time.Millisecond), Event: Fixed(time.Millisecond),
		}})
		m.show = func(cg Cgroup) string {
			state := "absent"
			if list := r.listContainers(&runtimeapi.ContainerFilter{Id: cg.ID}); cg.ID != "" && len(list) > 0 {
				state = list[0].State.String()
			}
			return time.Since(begin).String() + " " + state
		}
		pod, config := runPod(t, r, "p") // 3ms
		id := startContainer(t, r, pod, config, "c", "exit", "0", "after", "10ms")
		wantState(t, r, id, running) // 6ms
		time.Sleep(8 * time.Millisecond)
		wantState(t, r, id, running)
		if _, err := r.Wait(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		if got := time.Since(begin); got != 43*time.Millisecond {
			t.Errorf("exited after %v", got)
		}
		equalLines(t, "the mirror", m.told(), []string{
			"pod added 0s absent",
			"created 0s absent",
			"populated 0s absent",
			"created 3ms CONTAINER_CREATED",
			"populated 3ms CONTAINER_CREATED",
			"emptied 13ms CONTAINER_RUNNING",
			"removed 31ms CONTAINER_RUNNING",
		})
	})
}

func TestAContainerThatEndsAtOnceIsShownRunningFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRuntime(t, Options{Lag: Lag{Start: Fixed(50 * time.Millisecond), Exit: Fixed(time.Millisecond), Event: Fixed(0)}})
		ctx, stop := context.WithCancel(t.Context())
		e := readEvents(ctx, r)
		pod, config := runPod(t, r, "p")
		id := startContainer(t, r, pod, config, "c", "exit", "4")
		s, err := r.Wait(t.Context(), id)
		if err != nil || s.ExitCode != 4 {
			t.Fatalf("%v, %v", s, err)
		}
		synctest.Wait()
		equalLines(t, "events", e.lines(), []string{
			"sandbox CONTAINER_CREATED_EVENT SANDBOX_READY",
			"sandbox CONTAINER_STARTED_EVENT SANDBOX_READY",
			"container CONTAINER_CREATED_EVENT CONTAINER_CREATED",
			"container CONTAINER_STARTED_EVENT CONTAINER_RUNNING",
			"container CONTAINER_STOPPED_EVENT CONTAINER_EXITED",
		})
		stop()
		<-e.over
	})
}

func TestStop(t *testing.T) {
	for name, c := range map[string]struct {
		command []string
		grace   time.Duration
		takes   time.Duration
		code    int32
	}{
		"term":               {nil, time.Minute, 0, 143},
		"term with own code": {[]string{"run", "on-term", "0"}, time.Minute, 0, 0},
		"kill":               {[]string{"run", "on-term", "0"}, 0, 0, 137},
		"stubborn":           {[]string{"run", "ignore-term"}, time.Minute, time.Minute, 137},
		"ends in the meantime": {[]string{"exit", "5", "after", "20s", "ignore-term"}, time.Minute,
			20 * time.Second, 5},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRuntime(t, Options{Lag: NoLag()})
				pod, config := runPod(t, r, "p")
				id := startContainer(t, r, pod, config, "c", c.command...)
				begin := time.Now()
				if err := r.Stop(t.Context(), id, c.grace); err != nil {
					t.Fatal(err)
				}
				s, err := r.Wait(t.Context(), id)
				if err != nil || s.ExitCode != c.code || time.Since(begin) != c.takes {
					t.Errorf("exit code %d after %v, %v", s.GetExitCode(), time.Since(begin), err)
				}
			})
		})
	}
}

func TestRemovingWhatRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRuntime(t, Options{})
		ctx, stop := context.WithCancel(t.Context())
		pod, config := runPod(t, r, "p")
		one := startContainer(t, r, pod, config, "one")
		two := startContainer(t, r, pod, config, "two", "run", "ignore-term")
		e := readEvents(ctx, r)
		if err := r.Remove(t.Context(), one); err != nil {
			t.Fatal(err)
		}
		if err := r.RemovePod(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		wantState(t, r, two, -1)
		time.Sleep(time.Second)
		synctest.Wait()
		equalLines(t, "events", e.lines(), []string{
			"container CONTAINER_STOPPED_EVENT CONTAINER_EXITED",
			"container CONTAINER_DELETED_EVENT gone",
			"container CONTAINER_STOPPED_EVENT CONTAINER_EXITED",
			"sandbox CONTAINER_STOPPED_EVENT SANDBOX_NOTREADY",
			"container CONTAINER_DELETED_EVENT gone",
			"sandbox CONTAINER_DELETED_EVENT SANDBOX_NOTREADY",
		})
		stop()
		<-e.over
	})
}

func TestNothingStartsInAPodBeingStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRuntime(t, Options{Lag: Lag{Start: Fixed(0), Exit: Fixed(time.Second), Event: Fixed(0)}})
		pod, config := runPod(t, r, "p")
		startContainer(t, r, pod, config, "a")
		b, err := r.Create(t.Context(), pod, ContainerConfig(config, "b", 0, "image"))
		if err != nil {
			t.Fatal(err)
		}
		stopped := make(chan error)
		go func() { stopped <- r.StopPod(t.Context(), pod) }()
		synctest.Wait() // a is killed, and its end not shown yet

		wantCode(t, r.Start(t.Context(), b), codes.FailedPrecondition)
		_, err = r.Create(t.Context(), pod, ContainerConfig(config, "c", 0, "image"))
		wantCode(t, err, codes.FailedPrecondition)
		if err := <-stopped; err != nil {
			t.Fatal(err)
		}
		wantState(t, r, b, created)
		if got := sandboxStateOf(t, r, pod); got != notReady {
			t.Errorf("the sandbox is %v", got)
		}
		if _, _, running := r.Counts(); running != 0 {
			t.Errorf("%d containers run in a stopped pod", running)
		}
		if err := r.RemovePod(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
	})
}

func TestFailingToStart(t *testing.T) {
	m := &recorder{}
	r := newRuntime(t, Options{Lag: NoLag(), Mirror: m})
	pod, config := runPod(t, r, "p")
	id, err := r.Create(t.Context(), pod, ContainerConfig(config, "c", 0, "image", "fail", "message", "no", "such", "file"))
	if err != nil {
		t.Fatal(err)
	}
	wantCode(t, r.Start(t.Context(), id), codes.Unknown)
	s, err := r.Wait(t.Context(), id)
	if err != nil || s.ExitCode != 128 || s.Reason != "StartError" || s.Message != "no such file" || s.StartedAt != 0 {
		t.Errorf("%v, %v", s, err)
	}
	equalLines(t, "the mirror", m.told(), []string{"pod added", "created", "populated"})
}

func TestRefusals(t *testing.T) {
	r := newRuntime(t, Options{Lag: NoLag()})
	ctx := t.Context()
	pod, config := runPod(t, r, "p")
	id := startContainer(t, r, pod, config, "c")

	_, err := r.RunPod(ctx, nil)
	wantCode(t, err, codes.InvalidArgument)
	_, err = r.RunPod(ctx, config)
	wantCode(t, err, codes.AlreadyExists)
	_, err = r.Create(ctx, "0123", ContainerConfig(config, "d", 0, "image"))
	wantCode(t, err, codes.NotFound)
	_, err = r.Create(ctx, pod, ContainerConfig(config, "c", 0, "image"))
	wantCode(t, err, codes.AlreadyExists)
	_, err = r.Create(ctx, pod, ContainerConfig(config, "d", 0, ""))
	wantCode(t, err, codes.InvalidArgument)
	_, err = r.Create(ctx, pod, ContainerConfig(config, "d", 0, "image", "exit"))
	wantCode(t, err, codes.InvalidArgument)
	_, err = r.Create(ctx, pod, nil)
	wantCode(t, err, codes.InvalidArgument)
	wantCode(t, r.Start(ctx, id), codes.FailedPrecondition)
	wantCode(t, r.Start(ctx, "zz"), codes.NotFound)
	_, err = r.Wait(ctx, "zz")
	wantCode(t, err, codes.NotFound)
	wantCode(t, r.Exit("zz", 0, ""), codes.NotFound)
	_, err = r.PodSandboxStatus(ctx, &runtimeapi.PodSandboxStatusRequest{PodSandboxId: "zz"})
	wantCode(t, err, codes.NotFound)

	// These must be repeatable, the CRI says.
	for name, err := range map[string]error{
		"Stop": r.Stop(ctx, "zz", 0), "Remove": r.Remove(ctx, "zz"), "StopPod": r.StopPod(ctx, "zz"), "RemovePod": r.RemovePod(ctx, "zz"),
	} {
		if err != nil {
			t.Errorf("%s of something unknown: %v", name, err)
		}
	}
	if err := r.StopPod(ctx, pod); err != nil {
		t.Fatal(err)
	}
	_, err = r.Create(ctx, pod, ContainerConfig(config, "d", 0, "image"))
	wantCode(t, err, codes.FailedPrecondition)

	r.Close()
	_, err = r.RunPod(ctx, PodConfig("n", "late", "u", 0, Guaranteed))
	wantCode(t, err, codes.Unavailable)
	_, err = r.Client().ListContainers(ctx, nil)
	wantCode(t, err, codes.Unavailable)
}

func TestGivingUpAWaitDoesNotStopTheChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRuntime(t, Options{Lag: Lag{Start: Fixed(time.Minute)}})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		id, err := r.RunPod(ctx, PodConfig("n", "slow", "u", 0, Guaranteed))
		wantCode(t, err, codes.DeadlineExceeded)
		if got := sandboxStateOf(t, r, id); got != -1 {
			t.Errorf("sandbox is %v before it is ready", got)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := sandboxStateOf(t, r, id); got != ready {
			t.Errorf("sandbox is %v", got)
		}
	})
}

func TestCloseEndsWhatIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRuntime(t, Options{Lag: Lag{Start: Fixed(time.Hour), Exit: Fixed(time.Hour)}})
		r.SetLag(NoLag())
		pod, config := runPod(t, r, "p")
		startContainer(t, r, pod, config, "long", "exit", "0", "after", "10h")
		id := startContainer(t, r, pod, config, "stubborn", "run", "ignore-term")
		r.SetLag(Lag{Exit: Fixed(time.Hour)})
		e := readEvents(t.Context(), r)
		errs := make(chan error)
		go func() { errs <- r.Stop(t.Context(), id, time.Hour) }()
		go func() { errs <- r.StopPod(t.Context(), pod) }()
		go func() {
			_, err := r.Wait(t.Context(), id)
			errs <- err
		}()
		synctest.Wait()
		r.Close()
		for range 3 {
			if err := <-errs; err != nil {
				wantCode(t, err, codes.Unavailable)
			}
		}
		<-e.over
		wantCode(t, e.err, codes.Unavailable)
		r.Close()
	})
}
