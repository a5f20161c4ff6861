package workload

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/hybrid-pleg/hybrid-pleg/internal/embedded"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// audience writes down the events of a play.
type audience struct {
	seen []line
}

type line struct {
	at            time.Duration
	id, pod, name string
	what          runtimeapi.ContainerEventType
	exit          int32
	reason        string
	attempt       uint32
	sandbox       bool
}

// String leaves out what differs by chance: the IDs, which all actors draw from
// one source.
func (l line) String() string {
	return fmt.Sprint(l.pod, " ", l.name, " ", l.attempt, " ", l.what, " ", l.exit)
}

// play runs a workload for a while in a bubble and returns what was to be seen.
func play(t *testing.T, o Options, d time.Duration, look func(context.Context, *embedded.Runtime)) []line {
	var a audience
	synctest.Test(t, func(t *testing.T) {
		rt := embedded.New(embedded.Options{Seed: 1, EventBuffer: 100_000})
		ctx, stop := context.WithTimeout(t.Context(), d)
		defer stop()
		begin := time.Now()
		ch := make(chan *runtimeapi.ContainerEventResponse)
		var all sync.WaitGroup
		all.Go(func() {
			defer close(ch)
			rt.Client().GetContainerEvents(t.Context(), ch, nil)
		})
		all.Go(func() {
			for ev := range ch {
				a.add(time.Since(begin), ev)
			}
		})
		synctest.Wait()
		all.Go(func() {
			if err := Run(ctx, rt, o); err != nil {
				t.Error(err)
			}
		})
		if look != nil {
			for ctx.Err() == nil {
				time.Sleep(time.Second)
				look(t.Context(), rt)
			}
		}
		<-ctx.Done()
		synctest.Wait()
		rt.Close()
		all.Wait()
	})
	return a.seen
}

func (a *audience) add(at time.Duration, ev *runtimeapi.ContainerEventResponse) {
	l := line{
		at: at, id: ev.ContainerId, what: ev.ContainerEventType,
		pod: ev.PodSandboxStatus.GetMetadata().GetName(), sandbox: ev.ContainerId == ev.PodSandboxStatus.GetId(),
	}
	for _, c := range ev.ContainersStatuses {
		if c.Id == ev.ContainerId {
			l.name, l.attempt, l.exit, l.reason = c.Metadata.Name, c.Metadata.Attempt, c.ExitCode, c.Reason
		}
	}
	a.seen = append(a.seen, l)
}

const (
	createdEvent = runtimeapi.ContainerEventType_CONTAINER_CREATED_EVENT
	startedEvent = runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT
	stoppedEvent = runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT
	deletedEvent = runtimeapi.ContainerEventType_CONTAINER_DELETED_EVENT
)

// transitions counts what becomes an event of ours: all but the creation of a
// sandbox.
func transitions(seen []line) (n int) {
	for _, l := range seen {
		if !l.sandbox || l.what != createdEvent {
			n++
		}
	}
	return n
}

func TestAnHour(t *testing.T) {
	most := 0
	seen := play(t, Options{Seed: 1}, time.Hour, func(_ context.Context, rt *embedded.Runtime) {
		sandboxes, containers, running := rt.Counts()
		most = max(most, sandboxes)
		// A service's new pod is up before the old one goes: four more at most.
		if sandboxes > defaultPods+4 || containers > 24 || running > containers {
			t.Errorf("%d sandboxes, %d containers, %d running", sandboxes, containers, running)
		}
	})
	if len(seen) == 0 || seen[0].at > 10*time.Millisecond {
		t.Fatalf("the first event is not there at once: %v", seen[:min(1, len(seen))])
	}
	if rate := float64(transitions(seen)) / time.Hour.Seconds(); rate < defaultRate*0.8 || rate > defaultRate*1.2 {
		t.Errorf("%.2f transitions a second, want about %v", rate, defaultRate)
	}
	if most < defaultPods-2 {
		t.Errorf("never more than %d pods at a time", most)
	}

	// Each container and sandbox lives through its events once, in their order.
	last := map[string]runtimeapi.ContainerEventType{}
	exits := map[string]int{}
	attempts := uint32(0)
	pods := map[string]bool{}
	for _, l := range seen {
		before, known := last[l.id]
		if known && l.what <= before || !known && l.what != createdEvent {
			t.Errorf("%v: after %v", l, before)
		}
		last[l.id] = l.what
		pods[l.pod] = true
		attempts = max(attempts, l.attempt)
		if l.what == stoppedEvent && !l.sandbox {
			exits[fmt.Sprint(l.exit, " ", l.reason)]++
		}
	}
	for _, want := range []string{"0 Completed", "1 Error", "2 Error", "3 Error", "137 OOMKilled", "143 Error"} {
		if exits[want] == 0 {
			t.Errorf("no exit %q in an hour, only %v", want, exits)
		}
	}
	if attempts < 5 || !pods["cache-0"] || len(pods) < 400 {
		t.Errorf("%d attempts at most, %d pods, cache-0: %v", attempts, len(pods), pods["cache-0"])
	}
	for name := range pods {
		if len(name) > 63 || strings.ToLower(name) != name {
			t.Errorf("no pod can be called %q", name)
		}
	}
}

func TestTheSameSeedPlaysTheSame(t *testing.T) {
	// The order between pods is left to the scheduler, that within one is not.
	story := func(seed uint64) map[string][]string {
		out := map[string][]string{}
		for _, l := range play(t, Options{Seed: seed}, 5*time.Minute, nil) {
			out[l.pod] = append(out[l.pod], l.String())
		}
		return out
	}
	one, two, other := story(7), story(7), story(8)
	same := 0
	for pod, lines := range one {
		// The end is cut off by the clock, to within the lags.
		n := min(len(lines), len(two[pod]))
		if n > 0 && slices.Equal(lines[:n], two[pod][:n]) {
			same++
		}
	}
	if same < len(one)-4 {
		t.Errorf("%d of %d pods had the same story", same, len(one))
	}
	// Only cache-0 is in every play.
	for pod := range one {
		if _, ok := other[pod]; ok && pod != "cache-0" {
			t.Errorf("%s is in a play with another seed", pod)
		}
	}
}

func TestScale(t *testing.T) {
	const pods, rate = 400, 50
	sandboxes := 0
	seen := play(t, Options{Pods: pods, Rate: rate, Seed: 2}, 5*time.Minute, func(_ context.Context, rt *embedded.Runtime) {
		sandboxes, _, _ = rt.Counts()
	})
	if sandboxes < pods*7/10 || sandboxes > pods*9/10 {
		t.Errorf("%d sandboxes, want about four fifths of %d", sandboxes, pods)
	}
	first := slices.IndexFunc(seen, func(l line) bool { return l.at > opening })
	if got := float64(transitions(seen[first:])) / (5*time.Minute - opening).Seconds(); got < rate*0.7 || got > rate*1.3 {
		t.Errorf("%.1f transitions a second, want about %d", got, rate)
	}
	if got := transitions(seen[:first]); got < pods*2 {
		t.Errorf("%d transitions in the opening, which is to bring up %d pods", got, pods)
	}
}

// A person at the keyboard removes every pod now and then; the play goes on.
func TestInterference(t *testing.T) {
	seconds := 0
	sandboxes := 0
	seen := play(t, Options{Seed: 3}, 30*time.Minute, func(ctx context.Context, rt *embedded.Runtime) {
		sandboxes, _, _ = rt.Counts()
		if seconds++; seconds%300 != 0 {
			return
		}
		list, err := rt.Client().ListPodSandbox(ctx, nil)
		if err != nil {
			t.Error(err)
		}
		for _, s := range list {
			if err := rt.RemovePod(ctx, s.Id); err != nil {
				t.Error(err)
			}
		}
	})
	if len(seen) < 1000 {
		t.Errorf("only %d events", len(seen))
	}
	if sandboxes > defaultPods+4 {
		t.Errorf("%d sandboxes in the end", sandboxes)
	}
}

func TestTheClosingOfTheRuntimeEndsThePlay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := embedded.New(embedded.Options{})
		over := make(chan error)
		go func() { over <- Run(t.Context(), rt, Options{}) }()
		time.Sleep(time.Minute)
		rt.Close()
		if err := <-over; err != nil {
			t.Error(err)
		}
	})
}

func TestOptionsThatCannotBe(t *testing.T) {
	rt := embedded.New(embedded.Options{})
	defer rt.Close()
	for _, o := range []Options{{Pods: -1}, {Rate: -1}} {
		if err := Run(t.Context(), rt, o); err == nil {
			t.Errorf("%+v was played", o)
		}
	}
}
