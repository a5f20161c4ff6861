package arm

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/internal/experiment/clock"
	"github.com/hybrid-pleg/hybrid-pleg/internal/experiment/plan"
	"github.com/hybrid-pleg/hybrid-pleg/internal/experiment/result"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestCommand(t *testing.T) {
	programs := Programs{Hybrid: "hp", Kubelet: "kp"}
	real, embedded := Target{Endpoint: "unix:///s"}, Target{Endpoint: "unix:///s", CgroupRoot: "/tmp/c"}
	hybrid := plan.Arm{Kind: plan.Hybrid, Triggers: []string{"cgroup", "ebpf"}, Period: 10 * time.Second, PeriodDegraded: time.Second}
	for _, test := range []struct {
		arm  plan.Arm
		on   Target
		want string
	}{
		{hybrid, real, "hp run --runtime-endpoint=unix:///s --relist-period=10s --output=ndjson --listen= --http=127.0.0.1:0 --triggers=cgroup,ebpf --relist-period-degraded=1s"},
		{hybrid, embedded, "hp run --runtime-endpoint=unix:///s --relist-period=10s --output=ndjson --listen= --http=127.0.0.1:0 --triggers=cgroup --relist-period-degraded=1s --cgroup-root=/tmp/c"},
		{plan.Arm{Kind: plan.Hybrid, Period: time.Second}, real, "hp run --runtime-endpoint=unix:///s --relist-period=1s --output=ndjson --listen= --http=127.0.0.1:0 --triggers=none"},
		{plan.Arm{Kind: plan.KubeletGeneric, Period: time.Second}, real, "kp --runtime-endpoint=unix:///s --relist-period=1s --http=127.0.0.1:0"},
		{plan.Arm{Kind: plan.KubeletEvented, Period: time.Second}, real, "kp --runtime-endpoint=unix:///s --relist-period=1s --http=127.0.0.1:0 --evented"},
		{plan.Arm{Kind: plan.CRIEvents}, real, "hp experiment arm events --runtime-endpoint=unix:///s"},
		{plan.Arm{Kind: plan.CRIPoll, Period: time.Second}, real, "hp experiment arm poll --runtime-endpoint=unix:///s --period=1s"},
	} {
		if got := strings.Join(Command(&test.arm, programs, test.on), " "); got != test.want {
			t.Errorf("%s:\n%s\nwant\n%s", test.arm.Kind, got, test.want)
		}
	}
}

func TestTold(t *testing.T) {
	wall := clock.NewWall()
	now := time.Now().UTC()
	line := func(typ, id, pod, more string) string {
		return fmt.Sprintf(`{"type":%q,"pod":{"uid":%q},"container":{"id":%q}%s,"detection":{"foundBy":"early","trigger":"cri","observedAt":%q}}`,
			typ, pod, id, more, now.Format(time.RFC3339Nano)) + "\n"
	}
	input := line("ContainerStarted", "a", "p", `,"inferred":true`) +
		line("ContainerDied", "a", "p", "") + line("ContainerDied", "a", "p", "") +
		line("ContainerCreated", "b", "p", "") +
		"no event\n" +
		`{"type":"SandboxDied","pod":{"uid":"p"},"sandbox":{"id":"s"}}` + "\n" +
		line("ContainerRemoved", "ghost", "p", "") + line("ContainerRemoved", "foreign", "q", "") +
		line("ContainerRemoved", "cut", "p", "")[:20] // an arm that was killed
	for name, r := range map[string]io.Reader{"at once": strings.NewReader(input), "byte by byte": iotest.OneByteReader(strings.NewReader(input))} {
		t.Run(name, func(t *testing.T) {
			told := newTold(wall)
			before := clock.Now()
			told.read(r)
			a := told.Of("a")
			if len(a) != 2 || a[result.Exit].Times != 2 || !a[result.Start].Inferred || a[result.Start].Trigger != "cri" {
				t.Errorf("of a it was told %+v", a)
			}
			if at := a[result.Start]; at.At < before || at.At > clock.Now() || at.Observed <= 0 || at.Observed > at.At {
				t.Errorf("it arrived at %d, observed at %d", at.At, at.Observed)
			}
			if told.Has("b", result.Start) || !told.Has("a", result.Exit) || told.Of("cut") != nil || told.Bad() != 1 {
				t.Errorf("b: %t, a: %t, cut: %v, bad: %d", told.Has("b", result.Start), told.Has("a", result.Exit), told.Of("cut"), told.Bad())
			}
			strange := told.Strange(map[string]bool{"a": true}, map[string]bool{"p": true})
			if len(strange) != 1 || strange[0].Container != "ghost" || strange[0].Kind != result.Removed || strange[0].At == 0 {
				t.Errorf("what never was is %+v", strange)
			}
			if again := told.Strange(map[string]bool{"a": true}, map[string]bool{"p": true}); len(again) != 0 {
				t.Errorf("it is told again: %+v", again)
			}
		})
	}
}

func TestParseCalls(t *testing.T) {
	page := "# HELP hybrid_pleg_cri_calls_total x\nhybrid_pleg_cri_calls_total{method=\"ListContainers\"} 12\n" +
		"hybrid_pleg_cri_calls_total{method=\"ContainerStatus\"} 1.5e+06\nother{method=\"x\"} 3\n"
	if got := parseCalls(page); len(got) != 2 || got["ListContainers"] != 12 || got["ContainerStatus"] != 1500000 {
		t.Errorf("the calls are %v", got)
	}
	page = "kubelet_runtime_operations_total{operation_type=\"list_podsandbox\"} 7\nkubelet_runtime_operations_total{operation_type=\"exec\"} 1\n" +
		"kubelet_runtime_operations_errors_total{operation_type=\"list_podsandbox\"} 2\n"
	if got := parseCalls(page); len(got) != 2 || got["ListPodSandbox"] != 7 || got["exec"] != 1 {
		t.Errorf("the kubelet's calls are %v", got)
	}
	if got := parseCalls("nothing"); got != nil {
		t.Errorf("of nothing the calls are %v", got)
	}
}

// script is a program that does what a shell does.
func script(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestArmThatDies(t *testing.T) {
	a, err := Start(&plan.Arm{Name: "x", Kind: plan.KubeletGeneric}, []string{script(t, "echo 'bad luck' >&2; exit 7")}, clock.NewWall())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Ready(t.Context()); err == nil || !strings.Contains(err.Error(), "exit status 7") || !strings.Contains(err.Error(), "bad luck") {
		t.Errorf("the error is %v", err)
	}
	if !a.Ended() || a.EndedAt() == 0 || a.WasReady() {
		t.Error("it does not count as ended")
	}
	if _, err := a.End(t.Context()); err == nil {
		t.Error("what it spent is known")
	}
	a.Stop()
}

func TestArmThatRuns(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("costs are measured on Linux only")
	}
	a, err := Start(&plan.Arm{Name: "x", Kind: plan.KubeletGeneric}, []string{script(t,
		"i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; echo 'everything was listed for the first time' >&2; exec sleep 1000")}, clock.NewWall())
	if err != nil {
		t.Fatal(err)
	}
	defer a.Stop()
	if notes, err := a.Ready(t.Context()); err != nil || len(notes) > 0 {
		t.Fatal(notes, err)
	}
	u, err := a.Begin(t.Context())
	if err != nil || u.CPU < 100*time.Microsecond || u.PeakRSS < 100<<10 || u.Calls != nil {
		t.Errorf("it spent %+v (%v)", u, err)
	}
	a.Stop()
	if !strings.Contains(a.Failed(), "terminated") {
		t.Errorf("its end is %q", a.Failed())
	}
	if _, err := Start(&plan.Arm{Name: "x"}, []string{"/nowhere"}, clock.NewWall()); err == nil {
		t.Error("a program that is not there was started")
	}
}
