package runner

import (
	"testing"

	"github.com/hybrid-pleg/hybrid-pleg/internal/experiment/result"
	"github.com/hybrid-pleg/hybrid-pleg/internal/testruntime"
	"github.com/hybrid-pleg/hybrid-pleg/internal/testruntime/runtimetest"
	"github.com/hybrid-pleg/hybrid-pleg/internal/testutil"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/trigger/ebpf"
)

// TestContainerd runs a small experiment on a private containerd, with a recorder in
// the kernel.
func TestContainerd(t *testing.T) {
	testutil.Need(t, runtimetest.Feature, testruntime.Check())
	testutil.Need(t, "ebpf", ebpf.Probe())
	o := options(t, `
warm-up: 1s
arms:
- {name: hybrid, triggers: [cgroup, ebpf, cri]}
- {name: relist, triggers: none, period: 500ms}
- {name: events, kind: cri-events}
workloads:
- {name: containers, background: 4, arrivals: fixed 2/s, count: 6, lifetime: fixed 300ms, removal-delay: 300ms}
- {name: pods, background: 4, arrivals: fixed 2/s, count: 3, churn: pods, end: stop, lifetime: fixed 300ms}
`)
	o.Runtime = Containerd
	e := conduct(t, t.Context(), o)
	if e.Run.Truth.Kernel != result.FromEBPF || e.Run.Truth.Visible != result.FromEvents || e.Run.Truth.Lost != 0 {
		t.Errorf("the truth comes from %+v", e.Run.Truth)
	}
	if e.Run.Runtime.Name != "containerd" || e.Run.Host.Cgroup == "" || e.Run.Host.MemoryMiB == 0 {
		t.Errorf("the facts are %+v, %+v", e.Run.Runtime, e.Run.Host)
	}
	for _, a := range e.Run.Arms {
		if a.Failed != "" || len(a.False) > 0 || len(a.Costs) != 2 {
			t.Errorf("an arm is %+v", a)
		}
		for _, c := range a.Costs {
			if c.CPU <= 0 || c.RuntimeCPU <= 0 {
				t.Errorf("arm %s: a cost is %+v", a.Name, c)
			}
		}
	}
	counts := map[string]int{}
	for _, tr := range e.Transitions {
		counts[tr.Kind]++
		// A start may be shown before the kernel's exec: runc returns when it has given the
		// word for it.
		if tr.Visible == 0 || tr.Listed == 0 || (tr.Kernel == 0) != (tr.Kind == result.Removed) || tr.Kind == result.Exit && tr.Kernel > tr.Visible {
			t.Errorf("the truth of a transition is %+v", tr)
		}
		for _, name := range []string{"hybrid", "events"} {
			if told, ok := tr.Told[name]; !ok || told.Times != 1 || tr.Kind == result.Exit && told.At < tr.Kernel {
				t.Errorf("%s told of %+v: %t", name, tr, ok)
			}
		}
	}
	for _, kind := range []string{result.Start, result.Exit, result.Removed} {
		if counts[kind] != 9 {
			t.Errorf("%d transitions of kind %s, want 9", counts[kind], kind)
		}
	}
}
