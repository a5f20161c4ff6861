//go:build linux

package e2e

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/internal/testruntime"
	"github.com/hybrid-pleg/hybrid-pleg/internal/testruntime/runtimetest"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/pleg"
	"golang.org/x/sync/errgroup"
)

var shortLived = flag.Int("short-lived", 200, "containers that the benchmark of short lives makes")

// BenchmarkShortLived makes containers that live for 0 to 50 ms and are removed at
// once, and counts those of which an arm has not told a start, an end and a
// removal. All arms watch at the same time. The arm "none" relists every second.
func BenchmarkShortLived(b *testing.B) {
	rt := runtimetest.Start(b, testruntime.Options{})
	var arms []*arm
	for _, name := range []string{"none", "cgroup", "ebpf", "cri", "all"} {
		opts := pleg.Options{Triggers: triggerChoices()[name]}
		if name == "none" {
			opts.RelistPeriod = time.Second
		}
		arms = append(arms, startArm(b, rt, name, opts))
	}
	const pods = 4
	ids := make([][]string, pods)
	var group errgroup.Group
	began := time.Now()
	for i := range pods {
		group.Go(func() error {
			random := rand.New(rand.NewPCG(uint64(i), 0))
			p, err := rt.RunPod(b.Context(), testruntime.PodSpec{})
			if err != nil {
				return err
			}
			for n := range *shortLived / pods {
				life := time.Duration(random.IntN(51)) * time.Millisecond
				c, err := p.RunContainer(b.Context(), testruntime.ContainerSpec{
					Name: "brief", Attempt: uint32(n), Args: []string{"exit", "0", life.String()},
				})
				if err != nil {
					return err
				}
				ids[i] = append(ids[i], c.ID)
				if _, err := c.Wait(b.Context()); err != nil {
					return err
				}
				if err := c.Remove(b.Context()); err != nil {
					return err
				}
			}
			return p.Remove(b.Context())
		})
	}
	if err := group.Wait(); err != nil {
		b.Fatal(err)
	}
	took := time.Since(began)
	made := 0
	for _, of := range ids {
		made += len(of)
	}
	quiesce(b, arms)

	table := &strings.Builder{}
	w := tabwriter.NewWriter(table, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "triggers\tmissed\twithout exit code\t")
	for _, a := range arms {
		missed, noCode := a.missed(ids)
		fmt.Fprintf(w, "%s\t%d of %d\t%d\t\n", a.name, missed, made, noCode)
		b.ReportMetric(float64(missed), a.name+"-missed")
	}
	_ = w.Flush()
	b.ReportMetric(0, "ns/op")
	fmt.Printf("\n%d containers that live 0–50 ms and are removed at once, in %s\n%s\n", made, took.Round(time.Second), table)
}

// missed counts the containers of which not all was told, and those that died
// without their exit code.
func (a *arm) missed(ids [][]string) (missed, noCode int) {
	told := make(map[string]map[event.Type]event.Event)
	for _, e := range a.told() {
		if e.Container != nil {
			if told[e.Container.ID] == nil {
				told[e.Container.ID] = make(map[event.Type]event.Event)
			}
			told[e.Container.ID][e.Type] = e
		}
	}
	for _, of := range ids {
		for _, id := range of {
			died, ok := told[id][event.ContainerDied]
			_, started := told[id][event.ContainerStarted]
			_, removed := told[id][event.ContainerRemoved]
			switch {
			case !ok || !started || !removed:
				missed++
			case died.Status == nil || died.Status.ExitCode == nil:
				noCode++
			}
		}
	}
	return missed, noCode
}
