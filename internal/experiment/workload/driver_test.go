package workload

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/internal/embedded"
	"github.com/hybrid-pleg/hybrid-pleg/internal/experiment/cri"
	"github.com/hybrid-pleg/hybrid-pleg/internal/experiment/plan"
	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// theatre is an embedded runtime with a driver.
type theatre struct {
	*embedded.Runtime
	driver *Driver
	mu     sync.Mutex
	told   map[string][]embedded.Moment
}

func newTheatre(t *testing.T) *theatre {
	t.Helper()
	th := &theatre{told: map[string][]embedded.Moment{}}
	th.Runtime = embedded.New(embedded.Options{Lag: embedded.NoLag(), Account: func(id string, what embedded.Moment) {
		th.mu.Lock()
		defer th.mu.Unlock()
		th.told[id] = append(th.told[id], what)
	}})
	server, err := embedded.Serve(t.Context(), th.Runtime, "")
	if err != nil {
		t.Fatal(err)
	}
	conn, err := cri.Dial(t.Context(), server.Endpoint())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		if err := errors.Join(server.Close(), th.Close()); err != nil {
			t.Error(err)
		}
	})
	th.driver = NewDriver(conn, Setting{
		Run: "test", Image: "image:1", Parallel: 8,
		Lives:        func(d time.Duration) ([]string, []string) { return nil, []string{"exit", "0", "after", d.String()} },
		Stays:        func() ([]string, []string) { return nil, []string{"run"} },
		CgroupParent: CgroupfsParent("/"),
	}, th)
	return th
}

// WaitExited implements Ends.
func (th *theatre) WaitExited(ctx context.Context, id string) error {
	_, err := th.Wait(ctx, id)
	return err
}

func (th *theatre) counts(t *testing.T, wantPods, wantContainers int) {
	t.Helper()
	pods, containers, _ := th.Counts()
	if pods != wantPods || containers != wantContainers {
		t.Errorf("there are %d pods and %d containers, want %d and %d", pods, containers, wantPods, wantContainers)
	}
}

func TestPlay(t *testing.T) {
	for _, churn := range []string{plan.ChurnContainers, plan.ChurnPods} {
		for _, end := range []string{plan.EndExit, plan.EndStop} {
			t.Run(churn+" "+end, func(t *testing.T) {
				th := newTheatre(t)
				w := workload("fixed 200/s", "uniform 0s 20ms")
				w.Count, w.Churn, w.End, w.RemovalDelay = 40, churn, end, 5*time.Millisecond
				s := Make(w, 50*time.Millisecond, 1, 0, 0)
				var pods []*Pod
				if churn == plan.ChurnContainers {
					var err error
					if pods, err = th.driver.Pods(t.Context(), w.Pods); err != nil {
						t.Fatal(err)
					}
				}
				lives := th.driver.Play(t.Context(), w, s, pods, time.Now().Add(s.WarmUp))
				th.counts(t, len(pods), 0)
				if err := th.driver.Remove(t.Context(), pods); err != nil {
					t.Fatal(err)
				}
				th.counts(t, 0, 0)
				if len(lives) != len(s.Starts) || th.driver.Started() != 40 {
					t.Errorf("%d lives of %d, %d started", len(lives), len(s.Starts), th.driver.Started())
				}
				uids, ids := th.driver.Made()
				counted := 0
				for _, l := range lives {
					if l.Err != nil || !l.Started || !uids[l.Pod] || !ids[l.Container] {
						t.Errorf("a life is %+v", l)
					}
					if l.Counts {
						counted++
					}
					if l.AskedStart == 0 || l.AskedRemove <= l.AskedStart || (l.AskedStop != 0) != (end == plan.EndStop) {
						t.Errorf("it was asked at %d, %d, %d", l.AskedStart, l.AskedStop, l.AskedRemove)
					}
					th.mu.Lock()
					told := th.told[l.Container]
					th.mu.Unlock()
					if !slices.Contains(told, embedded.Ended) || told[len(told)-1] != embedded.ShownRemoved {
						t.Errorf("what befell it is %v", told)
					}
				}
				if counted != 40 {
					t.Errorf("%d count, want 40", counted)
				}
			})
		}
	}
}

func TestBackground(t *testing.T) {
	th := newTheatre(t)
	most := 0
	for _, step := range []struct{ n, perPod, pods int }{{25, 10, 3}, {25, 10, 3}, {12, 10, 2}, {30, 10, 4}, {0, 10, 0}} {
		if err := th.driver.Background(t.Context(), step.n, step.perPod, func(have int) { most = max(most, have) }); err != nil {
			t.Fatal(err)
		}
		th.counts(t, step.pods, step.n)
	}
	if most != 30 {
		t.Errorf("at most %d were reported", most)
	}
}

func TestInterrupted(t *testing.T) {
	th := newTheatre(t)
	if err := th.driver.Background(t.Context(), 5, 10, nil); err != nil {
		t.Fatal(err)
	}
	w := workload("fixed 100/s", "fixed 1h")
	w.Count = 1000
	pods, err := th.driver.Pods(t.Context(), w.Pods)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		// When ten have been started, it ends.
		_ = th.WaitCalls(ctx, "StartContainer", func(s embedded.CallStats) bool { return s.Total >= 15 })
		cancel()
	}()
	lives := th.driver.Play(ctx, w, Make(w, 0, 1, 0, 0), pods, time.Now())
	if len(lives) == 0 || len(lives) >= 1000 {
		t.Errorf("%d lives", len(lives))
	}
	for _, l := range lives {
		if l.Err != nil || l.AskedRemove != 0 {
			t.Errorf("a life is %+v", l)
		}
	}
	if err := th.driver.RemoveAll(t.Context()); err != nil {
		t.Error(err)
	}
	th.counts(t, 0, 0)
}

func TestFailures(t *testing.T) {
	th := newTheatre(t)
	w := workload("fixed 200/s", "fixed 1ms")
	w.Count = 10
	pods, err := th.driver.Pods(t.Context(), w.Pods)
	if err != nil {
		t.Fatal(err)
	}
	refused := status.Error(codes.ResourceExhausted, "no more")
	th.Faults().Add(embedded.Fault{Method: "CreateContainer", Times: 3, Err: refused})
	th.Faults().Add(embedded.Fault{Method: "StartContainer", Times: 2, Err: refused})
	lives := th.driver.Play(t.Context(), w, Make(w, 0, 1, 0, 0), pods, time.Now())
	failed, started := 0, 0
	for _, l := range lives {
		if l.Started {
			started++
		} else if l.Err != nil {
			failed++
		}
	}
	if failed != 5 || started != 5 {
		t.Errorf("%d failed and %d started, want 5 each", failed, started)
	}
	th.counts(t, w.Pods, 0) // a container that could not be started is removed
	if err := th.driver.RemoveAll(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestClean(t *testing.T) {
	th := newTheatre(t)
	foreign, err := th.RunPod(t.Context(), embedded.PodConfig("ns", "foreign", "uid", 0, embedded.Burstable))
	if err != nil {
		t.Fatal(err)
	}
	// The driver of a run that was killed.
	if err := th.driver.Background(t.Context(), 7, 3, nil); err != nil {
		t.Fatal(err)
	}
	if left, err := Left(t.Context(), th.driver.rt); err != nil || len(left) != 3 {
		t.Errorf("%d pods are left (%v), want 3", len(left), err)
	}
	if n, err := Clean(t.Context(), th.driver.rt); err != nil || n != 3 {
		t.Errorf("%d pods were removed (%v), want 3", n, err)
	}
	th.counts(t, 1, 0)
	if _, err := th.CgroupOf(foreign); err != nil {
		t.Errorf("the pod of somebody else was removed: %v", err)
	}
}

func TestTemplate(t *testing.T) {
	command, args := FromTemplate([]string{"sleep", "{seconds}", "-x={lifetime}"})(1500 * time.Millisecond)
	if !slices.Equal(command, []string{"sleep", "1.5", "-x=1.5s"}) || args != nil {
		t.Errorf("the command is %q %q", command, args)
	}
}
