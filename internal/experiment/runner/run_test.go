package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hybrid-pleg/hybrid-pleg/internal/experiment/result"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// TestExperiment runs a small one of everything.
func TestExperiment(t *testing.T) {
	lives := filepath.Join(t.TempDir(), "lives")
	if err := os.WriteFile(lives, []byte("100ms\n0.2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	o := options(t, `
name: small
repeats: 2
warm-up: 300ms
arms:
- {name: triggers, triggers: [cgroup, cri, ebpf]}
- {name: relist, triggers: none, period: 50ms}
- {name: events, kind: cri-events}
- {name: poll, kind: cri-poll, period: 50ms}
workloads:
- {name: containers, background: 30, arrivals: fixed 20/s, count: 20, lifetime: file `+lives+`}
- {name: pods, background: 10, arrivals: burst 4 every 300ms, count: 8, churn: pods, end: stop, lifetime: fixed 100ms, removal-delay: 200ms}
`)
	e := conduct(t, t.Context(), o)
	r := e.Run
	if r.Interrupted || r.Sequential || r.Truth.Kernel != result.FromEmbedded || r.Truth.Visible != result.FromEmbedded || r.Runtime.StateLag != "realistic" {
		t.Errorf("the run is %+v", r)
	}
	if len(r.Phases) != 4 || len(r.Arms) != 4 {
		t.Fatalf("%d phases and %d arms", len(r.Phases), len(r.Arms))
	}
	for _, p := range r.Phases {
		want := map[string]int{"containers": 20, "pods": 8}[p.Name]
		if p.Planned != want || p.Started != want || p.FailedStarts != 0 || p.Ended <= p.Began {
			t.Errorf("a phase is %+v", p)
		}
	}
	if want := []string{"cgroup", "cri"}; !slices.Equal(r.Arms[0].Triggers, want) {
		t.Errorf("on the embedded runtime the triggers are %q", r.Arms[0].Triggers)
	}
	for _, a := range r.Arms {
		if a.Failed != "" || len(a.False) > 0 || len(a.Costs) != 4 || len(a.Command) < 3 {
			t.Errorf("an arm is %+v", a)
		}
		for _, c := range a.Costs {
			if c.Window <= 0 || c.CPU <= 0 || c.PeakRSS <= 0 || c.RPCs == nil || c.Attributable {
				t.Errorf("arm %s: a cost is %+v", a.Name, c)
			}
		}
	}
	counts := map[string]int{}
	for _, tr := range e.Transitions {
		counts[tr.Phase+" "+tr.Kind]++
		if len(tr.Arms) != 4 {
			t.Errorf("only %q had the chance to tell %+v", tr.Arms, tr)
		}
		if tr.Visible == 0 || (tr.Kernel == 0) != (tr.Kind == result.Removed) || tr.Kernel > tr.Visible || tr.Listed == 0 || tr.Lifetime == 0 {
			t.Errorf("the truth of %s is %+v", tr.Kind, tr)
		}
		if asked := tr.Kind != result.Exit || tr.Phase == "pods"; (tr.Asked != 0) != asked {
			t.Errorf("a %s in %s was asked for at %d", tr.Kind, tr.Phase, tr.Asked)
		}
		for _, name := range []string{"triggers", "events"} {
			told, ok := tr.Told[name]
			if !ok || told.Times != 1 || told.At < tr.Kernel {
				t.Errorf("%s told of %s %s: %t, %+v", name, tr.Kind, tr.Container, ok, told)
			}
		}
	}
	for what, n := range map[string]int{"containers": 40, "pods": 16} {
		for _, kind := range []string{result.Start, result.Exit, result.Removed} {
			if counts[what+" "+kind] != n {
				t.Errorf("%d transitions of kind %s in %s, want %d", counts[what+" "+kind], kind, what, n)
			}
		}
	}
}

// TestSequential runs arms in turn, one of which dies in the middle and one at once,
// which is told and stops nothing.
func TestSequential(t *testing.T) {
	dir := t.TempDir()
	kubelet := filepath.Join(dir, "kubelet-pleg")
	// It comes up, tells something that is no event, and fails.
	script := "#!/bin/sh\necho 'everything was listed for the first time' >&2\necho nonsense\nsleep 0.5\necho 'no more' >&2\nexit 3\n"
	if err := os.WriteFile(kubelet, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	o := options(t, `
sequential: true
warm-up: 100ms
settle: 1s
arms:
- {name: kubelet, kind: kubelet-generic}
- {name: poll, kind: cri-poll, period: 20ms}
workloads:
- {name: w, background: 5, arrivals: fixed 10/s, count: 15, lifetime: fixed 100ms, removal-delay: 200ms}
`)
	o.Kubelet = kubelet
	e := conduct(t, t.Context(), o)
	failed, polls := e.Run.Arms[0], e.Run.Arms[1]
	if !strings.Contains(failed.Failed, "exit status 3") || !strings.Contains(failed.Failed, "no more") {
		t.Errorf("the arm that died is said to have failed by %q", failed.Failed)
	}
	notes := strings.Join(e.Run.Notes, "\n")
	if !strings.Contains(notes, "arm kubelet: 1 lines that it told were no events") {
		t.Errorf("the notes are %s", notes)
	}
	if polls.Failed != "" || len(polls.Costs) != 1 || !polls.Costs[0].Attributable || polls.Costs[0].RuntimeBase <= 0 {
		t.Errorf("the other arm is %+v", polls)
	}
	if len(e.Run.Phases) != 2 || e.Run.Phases[1].Arm != "poll" || !e.Run.Sequential {
		t.Errorf("the phases are %+v", e.Run.Phases)
	}
	for _, tr := range e.Transitions {
		if slices.Contains(tr.Arms, "poll") && len(tr.Arms) != 1 {
			t.Errorf("the arms %q saw the same container", tr.Arms)
		}
	}
}

// TestInterrupted ends an experiment early, as Ctrl-C does, and expects what was
// measured until then.
func TestInterrupted(t *testing.T) {
	o := options(t, `
warm-up: 0s
arms:
- {name: poll, kind: cri-poll, period: 20ms}
- {name: long, triggers: none, period: 1h}
workloads:
- {name: w, background: 5, arrivals: fixed 20/s, lifetime: fixed 50ms, duration: 1h}
`)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	// Ten containers have come and gone when a name beyond the tenth is there.
	go func() {
		defer cancel()
		_ = awaitContainer(ctx, os.Getenv("TMPDIR"), "c-30")
	}()
	e := conduct(t, ctx, o)
	if !e.Run.Interrupted || len(e.Run.Phases) != 1 || e.Run.Phases[0].Started < 10 {
		t.Errorf("the run is %+v", e.Run)
	}
	if n := len(e.Run.Arms[0].Costs); n != 1 {
		t.Errorf("%d costs were written down", n)
	}
	polled := 0
	for _, tr := range e.Transitions {
		if _, ok := tr.Told["poll"]; ok {
			polled++
		}
		// It relists once an hour, and can't be said to have missed anything.
		if slices.Contains(tr.Arms, "long") {
			t.Errorf("the long period is blamed for %+v", tr)
		}
	}
	if polled < 10 {
		t.Errorf("only %d transitions were told", polled)
	}
}

// awaitContainer waits for a container of the embedded runtime whose socket is below
// dir.
func awaitContainer(ctx context.Context, dir, name string) error {
	for ctx.Err() == nil {
		if err := seesContainer(ctx, dir, name); err == nil {
			return nil
		}
	}
	return ctx.Err()
}

func seesContainer(ctx context.Context, dir, name string) error {
	sockets, _ := filepath.Glob(filepath.Join(dir, "*", "cri.sock"))
	if len(sockets) == 0 {
		return errors.New("no socket")
	}
	conn, err := dial(ctx, "unix://"+sockets[0])
	if err != nil {
		return err
	}
	defer conn.Close()
	for ctx.Err() == nil {
		list, err := conn.ListContainers(ctx, &runtimeapi.ListContainersRequest{})
		if err != nil {
			return err
		}
		for _, c := range list.GetContainers() {
			if c.GetMetadata().GetName() == name {
				return nil
			}
		}
	}
	return ctx.Err()
}

func TestRefused(t *testing.T) {
	const arms = "arms: [{kind: cri-poll}]\n"
	tests := []struct {
		name, plan string
		change     func(*Options)
		says       string
	}{
		{"too many containers", arms + "workloads:\n- {name: w, background: 10001, duration: 1s}\n", nil,
			"test.yaml:3: workload w has up to 10001 containers at a time, and the embedded runtime takes 10000"},
		{"output not empty", arms + "workloads: [{background: 1, duration: 1s}]\n", func(o *Options) { o.Output = "." },
			"--output: . is not empty"},
		{"output is a file", arms + "workloads: [{background: 1, duration: 1s}]\n", func(o *Options) { o.Output = "run_test.go/x" },
			"run_test.go"},
		{"no free disk", arms + "workloads: [{arrivals: fixed 10/s, duration: 10s, lifetime: fixed 0s}]\n",
			func(o *Options) { o.Output = "/proc/nothing" }, "--output: the results take about"},
		{"only ebpf", "arms: [{triggers: ebpf}]\nworkloads: [{background: 1, duration: 1s}]\n", nil,
			"the trigger ebpf sees nothing of the embedded runtime's containers"},
		{"no kubelet", "arms: [{kind: kubelet-generic}]\nworkloads: [{background: 1, duration: 1s}]\n",
			func(o *Options) { o.Kubelet = "./nowhere" }, "arm kubelet-generic: --kubelet-pleg: "},
		{"nothing left", "arms: [{kind: kubelet-generic, optional: true}]\nworkloads: [{background: 1, duration: 1s}]\n",
			func(o *Options) { o.Kubelet = "./nowhere" }, "no arm is left"},
		{"unknown truth", arms + "workloads: [{background: 1, duration: 1s}]\n", func(o *Options) { o.Truth = "divine" }, `--truth: "divine"`},
		{"no runtime", arms + "workloads: [{background: 1, duration: 1s}]\n",
			func(o *Options) { o.Runtime, o.Image = "unix:///nowhere.sock", "i" }, "--runtime: no runtime answers at unix:///nowhere.sock"},
		{"no image", arms + "workloads: [{background: 1, duration: 1s}]\n",
			func(o *Options) { o.Runtime = "unix:///nowhere.sock" }, "say with --image"},
		{"no endpoint", arms + "workloads: [{background: 1, duration: 1s}]\n", func(o *Options) { o.Runtime = "containerb" }, "--runtime: unusable runtime endpoint"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			o := options(t, test.plan)
			if test.change != nil {
				test.change(&o)
			}
			_, err := Check(t.Context(), o)
			if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), test.says) {
				t.Errorf("the error is\n%v\nwant one that says\n%s", err, test.says)
			}
		})
	}
}

func TestDescribe(t *testing.T) {
	o := options(t, `
name: plan-x
arms: [{name: a, triggers: none, period: 3s}, {name: b, triggers: [cri, ebpf]}, {kind: kubelet-evented, optional: true}]
workloads: [{name: w, background: 7, arrivals: poisson 2/s, duration: 60s}]
`)
	o.Kubelet = "./nowhere"
	ready, err := Check(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := ready.Describe(&out); err != nil {
		t.Fatal(err)
	}
	for _, says := range []string{
		"Experiment plan-x on embedded, about 1m", "States are late by: realistic", "the embedded runtime's own account",
		"a  no triggers", "every 3s", "triggers cri", "7 in the background", "poisson 2/s", "arm kubelet-evented is left out",
	} {
		if !strings.Contains(out.String(), says) {
			t.Errorf("it does not say %q:\n%s", says, out.String())
		}
	}
	if _, err := os.Stat(o.Output); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("describing made %s (%v)", o.Output, err)
	}
	if got := fmt.Sprint(roughly(59e9), roughly(61e9), roughly(3700e9), roughly(-1)); got != "59s1m01s1h01m0s" {
		t.Errorf("durations read %s", got)
	}
}
