//go:build linux

package e2e

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/internal/testruntime"
	"github.com/hybrid-pleg/hybrid-pleg/internal/testruntime/runtimetest"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/pleg"
	"golang.org/x/sync/errgroup"
)

// A scenario makes pods, lets something happen to them, and removes them. It
// says what must have been told of each.
type scenario struct {
	name string
	// brief: it is over so quickly that a period alone may see nothing of it.
	brief bool
	run   func(*stage) []podWant
}

// stage is what a scenario plays on.
type stage struct {
	testing.TB
	ctx  context.Context
	rt   *testruntime.Runtime
	arms []*arm
}

func (s *stage) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *stage) pod(spec testruntime.PodSpec) *testruntime.Pod {
	s.Helper()
	p, err := s.rt.RunPod(s.ctx, spec)
	s.must(err)
	return p
}

func (s *stage) container(p *testruntime.Pod, name string, attempt uint32, args ...string) *testruntime.Container {
	s.Helper()
	c, err := p.RunContainer(s.ctx, testruntime.ContainerSpec{Name: name, Attempt: attempt, Args: args})
	s.must(err)
	return c
}

// exited waits until the runtime shows the container's end.
func (s *stage) exited(c *testruntime.Container) {
	s.Helper()
	_, err := c.Wait(s.ctx)
	s.must(err)
}

// seen waits until every arm has told e of a container.
func (s *stage) seen(c *testruntime.Container, want event.Type) {
	s.Helper()
	for _, a := range s.arms {
		a.await(s, fmt.Sprintf("%s of %s", want, c.Name), func(events []event.Event) bool {
			for _, e := range events {
				if e.Type == want && e.Container != nil && e.Container.ID == c.ID {
					return true
				}
			}
			return false
		})
	}
}

func (s *stage) notSeen(c *testruntime.Container, unwanted event.Type) {
	s.Helper()
	for _, a := range s.arms {
		for _, e := range a.ofPod(c.Pod().UID) {
			if e.Type == unwanted && e.Container != nil && e.Container.ID == c.ID {
				s.Errorf("%s: %s told of %s: %s", a.name, unwanted, c.Name, lines([]event.Event{e}))
			}
		}
	}
}

func wantPod(p *testruntime.Pod, containers ...containerWant) podWant {
	return podWant{uid: p.UID, namespace: p.Namespace, name: p.Name, sandboxes: 1, containers: containers}
}

func wantContainer(c *testruntime.Container, exit int32) containerWant {
	return containerWant{id: c.ID, name: c.Name, attempt: c.Attempt, exit: exit}
}

func scenarios() []scenario {
	return []scenario{
		{name: "exit with code", run: func(s *stage) []podWant {
			p := s.pod(testruntime.PodSpec{Name: "exit-code", QoS: testruntime.Burstable})
			c := s.container(p, "main", 0, "exit", "3", "300ms")
			s.seen(c, event.ContainerDied)
			s.must(p.Remove(s.ctx))
			return []podWant{wantPod(p, wantContainer(c, 3))}
		}},
		{name: "killed", run: func(s *stage) []podWant {
			p := s.pod(testruntime.PodSpec{Name: "killed", QoS: testruntime.Guaranteed})
			c := s.container(p, "main", 0, "ignore-term")
			s.seen(c, event.ContainerStarted)
			pid, err := c.HostPid(s.ctx)
			s.must(err)
			s.must(syscall.Kill(pid, syscall.SIGKILL))
			s.seen(c, event.ContainerDied)
			s.must(p.Remove(s.ctx))
			return []podWant{wantPod(p, wantContainer(c, 137))}
		}},
		{name: "container restarted in its pod", run: func(s *stage) []podWant {
			p := s.pod(testruntime.PodSpec{Name: "restarted"})
			first := s.container(p, "main", 0, "exit", "1", "200ms")
			side := s.container(p, "side", 0, "sleep")
			s.exited(first)
			second := s.container(p, "main", 1, "sleep")
			s.seen(second, event.ContainerStarted)
			s.must(second.Ready(s.ctx))
			s.must(second.Stop(s.ctx, 10*time.Second))
			s.must(side.Ready(s.ctx))
			s.must(side.Stop(s.ctx, 10*time.Second))
			s.seen(side, event.ContainerDied)
			s.must(p.Remove(s.ctx))
			return []podWant{wantPod(p, wantContainer(first, 1), wantContainer(second, 143), wantContainer(side, 143))}
		}},
		{name: "pod removed while it runs", run: func(s *stage) []podWant {
			p := s.pod(testruntime.PodSpec{Name: "removed"})
			a := s.container(p, "a", 0, "sleep")
			b := s.container(p, "b", 0, "ignore-term")
			s.seen(a, event.ContainerStarted)
			s.seen(b, event.ContainerStarted)
			s.must(p.Stop(s.ctx))
			s.seen(a, event.ContainerDied)
			s.seen(b, event.ContainerDied)
			s.must(p.Remove(s.ctx))
			return []podWant{wantPod(p, wantContainer(a, 137), wantContainer(b, 137))}
		}},
		{name: "two sandboxes for one UID", run: func(s *stage) []podWant {
			p := s.pod(testruntime.PodSpec{Name: "two-sandboxes"})
			old := s.container(p, "main", 0, "sleep")
			s.seen(old, event.ContainerStarted)
			s.must(p.Stop(s.ctx))
			second, err := p.NewSandbox(s.ctx)
			s.must(err)
			again := s.container(second, "main", 1, "sleep")
			s.seen(again, event.ContainerStarted)
			s.seen(old, event.ContainerDied)
			s.must(second.Stop(s.ctx))
			s.seen(again, event.ContainerDied)
			s.must(second.Remove(s.ctx))
			s.must(p.Remove(s.ctx))
			want := wantPod(p, wantContainer(old, 137), wantContainer(again, 137))
			want.sandboxes = 2
			return []podWant{want}
		}},
		{name: "host PID namespace", run: func(s *stage) []podWant {
			p := s.pod(testruntime.PodSpec{Name: "host-pid", PID: testruntime.PIDNode})
			c := s.container(p, "main", 0, "exit", "5", "300ms")
			s.seen(c, event.ContainerDied)
			s.must(p.Remove(s.ctx))
			return []podWant{wantPod(p, wantContainer(c, 5))}
		}},
		{name: "shared PID namespace", run: func(s *stage) []podWant {
			p := s.pod(testruntime.PodSpec{Name: "shared-pid", PID: testruntime.PIDPod})
			c := s.container(p, "main", 0, "exit", "6", "300ms")
			other := s.container(p, "other", 0, "exit", "0", "400ms")
			s.seen(c, event.ContainerDied)
			s.seen(other, event.ContainerDied)
			s.must(p.Remove(s.ctx))
			return []podWant{wantPod(p, wantContainer(c, 6), wantContainer(other, 0))}
		}},
		{name: "leader thread exits while the process lives", run: func(s *stage) []podWant {
			p := s.pod(testruntime.PodSpec{Name: "leader-exit"})
			c := s.container(p, "main", 0, "leader-exit", "2s", "4")
			s.seen(c, event.ContainerStarted)
			s.leaderEnds(c)
			for _, a := range s.arms {
				before := uint64(len(a.told()))
				a.g.RequestReinspect(p.UID)
				a.await(s, "PodSync", func(events []event.Event) bool {
					for _, e := range events {
						if e.Type == event.PodSync && e.Pod.UID == p.UID && e.Container == nil && e.Sequence > before {
							return true
						}
					}
					return false
				})
			}
			if status, err := c.Status(s.ctx); err == nil && status.FinishedAt == 0 {
				s.notSeen(c, event.ContainerDied)
			} else {
				s.Logf("the machine was too slow to look before the process ended: %v", err)
			}
			s.seen(c, event.ContainerDied)
			s.must(p.Remove(s.ctx))
			return []podWant{wantPod(p, wantContainer(c, 4))}
		}},
		{name: "a process tree outlives its leader", run: func(s *stage) []podWant {
			p := s.pod(testruntime.PodSpec{Name: "orphans", PID: testruntime.PIDPod})
			c := s.container(p, "main", 0, "tree", "3", "1h")
			s.seen(c, event.ContainerDied)
			s.must(p.Remove(s.ctx))
			return []podWant{wantPod(p, wantContainer(c, 0))}
		}},
		{name: "exec into a container", run: func(s *stage) []podWant {
			p := s.pod(testruntime.PodSpec{Name: "exec"})
			c := s.container(p, "main", 0, "sleep")
			s.seen(c, event.ContainerStarted)
			for range 3 {
				_, err := c.Exec(s.ctx, testruntime.Program, "true")
				s.must(err)
			}
			for _, a := range s.arms {
				for _, e := range a.ofPod(p.UID) {
					if e.Type == event.ContainerDied {
						s.Errorf("%s: told of an exec: %s", a.name, lines([]event.Event{e}))
					}
				}
			}
			s.must(c.Ready(s.ctx))
			s.must(c.Stop(s.ctx, 10*time.Second))
			s.seen(c, event.ContainerDied)
			s.must(p.Remove(s.ctx))
			return []podWant{wantPod(p, wantContainer(c, 143))}
		}},
		{name: "lives for no time and is removed at once", brief: true, run: func(s *stage) []podWant {
			var wants []podWant
			for i := range 5 {
				p := s.pod(testruntime.PodSpec{Name: fmt.Sprintf("brief-%d", i)})
				c, err := p.RunContainer(s.ctx, testruntime.ContainerSpec{Name: "main", Command: []string{testruntime.Tiny}})
				s.must(err)
				s.must(c.Remove(s.ctx))
				s.must(p.Remove(s.ctx))
				want := wantContainer(c, 0)
				want.hasty = true
				wants = append(wants, wantPod(p, want))
			}
			return wants
		}},
		{name: "200 containers at once", run: func(s *stage) []podWant {
			const pods, each = 20, 10
			wants, made := make([]podWant, pods), make([]*testruntime.Pod, pods)
			var group errgroup.Group
			group.SetLimit(8)
			for i := range pods {
				group.Go(func() error {
					p, err := s.rt.RunPod(s.ctx, testruntime.PodSpec{Name: fmt.Sprintf("many-%d", i)})
					if err != nil {
						return err
					}
					wants[i], made[i] = wantPod(p), p
					var mu sync.Mutex
					var inner errgroup.Group
					for j := range each {
						inner.Go(func() error {
							c, err := p.RunContainer(s.ctx, testruntime.ContainerSpec{
								Name: fmt.Sprintf("c%d", j), Args: []string{"exit", fmt.Sprint(j), "100ms"},
							})
							if err != nil {
								return err
							}
							mu.Lock()
							defer mu.Unlock()
							wants[i].containers = append(wants[i].containers, wantContainer(c, int32(j)))
							return nil
						})
					}
					return inner.Wait()
				})
			}
			s.must(group.Wait())
			for _, w := range wants {
				for _, c := range w.containers {
					for _, a := range s.arms {
						a.await(s, "end of "+w.name+"/"+c.name, func(events []event.Event) bool {
							for _, e := range events {
								if e.Type == event.ContainerDied && e.Container.ID == c.id {
									return true
								}
							}
							return false
						})
					}
				}
			}
			var removal errgroup.Group
			removal.SetLimit(8)
			for _, p := range made {
				removal.Go(func() error { return p.Remove(s.ctx) })
			}
			s.must(removal.Wait())
			return wants
		}},
	}
}

// TestEveryTriggerTellsTheSame plays every scenario in front of five generators
// and compares what they tell.
func TestEveryTriggerTellsTheSame(t *testing.T) {
	rt := runtimetest.Start(t, testruntime.Options{})
	var arms []*arm
	for name, triggers := range triggerChoices() {
		opts := pleg.Options{Triggers: triggers, RelistPeriod: time.Second}
		if len(triggers) == 0 {
			opts.RelistPeriod = 250 * time.Millisecond
		}
		arms = append(arms, startArm(t, rt, name, opts))
	}
	played := make(map[string]bool) // UIDs
	for _, sc := range scenarios() {
		t.Run(sc.name, func(t *testing.T) {
			s := &stage{TB: t, ctx: t.Context(), rt: rt, arms: arms}
			if sc.brief {
				s.arms = withTriggers(arms)
			}
			wants := sc.run(s)
			for _, a := range s.arms {
				for _, w := range wants {
					a.await(t, "removal of "+w.name, w.removed)
					w.check(t, a.name, a.ofPod(w.uid))
				}
			}
			for _, w := range wants {
				played[w.uid] = true
			}
		})
	}
	for _, a := range arms {
		early, starts := 0, 0
		for _, e := range a.told() {
			if !played[e.Pod.UID] && !t.Failed() {
				t.Errorf("%s: told of a pod that no scenario made: %s", a.name, lines([]event.Event{e}))
			}
			// With 200 containers at once on two processors a look takes so long that the
			// period may well come first.
			if strings.HasPrefix(e.Pod.Name, "many-") {
				continue
			}
			if e.Type == event.ContainerStarted || e.Type == event.ContainerDied {
				starts++
				if e.Detection.FoundBy == event.FoundEarly && e.Detection.Trigger != "" {
					early++
				}
			}
		}
		t.Logf("%s: %d of %d starts and ends found by a trigger", a.name, early, starts)
		half := starts / 2
		if os.Getenv(emulatedEnv) != "" {
			half = 1 // a look takes so long there that the period may well come first
		}
		if none := a.name == "none"; none != (early == 0) || !none && early < half {
			t.Errorf("%s: %d of %d starts and ends were found by a trigger", a.name, early, starts)
		}
	}
}

func withTriggers(arms []*arm) []*arm {
	var out []*arm
	for _, a := range arms {
		if a.name != "none" {
			out = append(out, a)
		}
	}
	return out
}
