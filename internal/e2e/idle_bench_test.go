//go:build linux

package e2e

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/internal/testruntime"
	"github.com/hybrid-pleg/hybrid-pleg/internal/testruntime/runtimetest"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/pleg"
)

var (
	idleContainers = flag.Int("idle-containers", 300, "containers that the benchmark of the idle cost makes")
	idleTime       = flag.Duration("idle-time", time.Minute, "how long it looks at each arm")
)

// BenchmarkIdle measures the processor time that a generator and the runtime take
// together while containers run and nothing happens: with every trigger, and with
// none and a relist every second, as the kubelet does. What the runtime takes
// without anyone asking is measured first and taken off.
func BenchmarkIdle(b *testing.B) {
	rt := runtimetest.Start(b, testruntime.Options{})
	defer startBackground(b, rt, *idleContainers)()

	base := spent(b, rt)
	table := &strings.Builder{}
	w := tabwriter.NewWriter(table, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "triggers\tgenerator ms/min\truntime ms/min\ttogether\t")
	together := make(map[string]float64)
	for _, name := range []string{"none", "all"} {
		b.Run("triggers="+name, func(b *testing.B) {
			opts := pleg.Options{Triggers: triggerChoices()[name]}
			if name == "none" {
				opts.RelistPeriod = time.Second
			}
			a := startArm(b, rt, name, opts)
			quiesce(b, []*arm{a})
			waitFor(b, "the long period", func() error { return a.longPeriod(b, opts.RelistPeriod) })
			got := spent(b, rt).minus(base)
			together[name] = got.self + got.runtime
			fmt.Fprintf(w, "%s\t%.0f\t%.0f\t%.0f\t\n", name, got.self, got.runtime, together[name])
			b.ReportMetric(together[name], "cpu-ms/min")
			b.ReportMetric(0, "ns/op")
		})
	}
	_ = w.Flush()
	fmt.Printf("\nprocessor time with %d idle containers\n%sall takes %.3f of what a relist every second takes\n\n",
		*idleContainers, table, together["all"]/together["none"])
}

// longPeriod is nil once the arm relists no more often than it should.
func (a *arm) longPeriod(b *testing.B, want time.Duration) error {
	if want == 0 {
		want = pleg.DefaultRelistPeriod
	}
	families, err := a.reg.Gather()
	if err != nil {
		b.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "hybrid_pleg_relist_period_seconds" {
			if got := f.GetMetric()[0].GetGauge().GetValue(); got != want.Seconds() {
				return fmt.Errorf("it is %v s", got)
			}
		}
	}
	return nil
}

// cost is processor time in milliseconds a minute.
type cost struct{ self, runtime float64 }

func (c cost) minus(d cost) cost { return cost{c.self - d.self, c.runtime - d.runtime} }

// spent measures what this process and containerd take. The runtime's shims take
// no part in listing.
func spent(b *testing.B, rt *testruntime.Runtime) cost {
	self, runtime := cpu(b, os.Getpid()), cpu(b, rt.Pid())
	timer := time.NewTimer(*idleTime)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-b.Context().Done():
		b.Fatal(b.Context().Err())
	}
	perMinute := float64(time.Minute) / float64(*idleTime)
	return cost{
		self:    (cpu(b, os.Getpid()) - self).Seconds() * 1000 * perMinute,
		runtime: (cpu(b, rt.Pid()) - runtime).Seconds() * 1000 * perMinute,
	}
}

// cpu is the processor time that a process has taken, to the nanosecond
// (/proc/PID/schedstat of each thread; threads that ended are few).
func cpu(b *testing.B, pid int) time.Duration {
	b.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil || len(files) == 0 {
		b.Fatalf("no threads of process %d: %v", pid, err)
	}
	var sum time.Duration
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			continue // the thread has ended
		}
		first, _, _ := strings.Cut(string(data), " ")
		ns, err := strconv.ParseInt(first, 10, 64)
		if err != nil {
			b.Fatal(err)
		}
		sum += time.Duration(ns)
	}
	return sum
}
