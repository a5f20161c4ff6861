package plan

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

const least = "arms:\n- {kind: hybrid}\nworkloads:\n- {arrivals: none, background: 1, duration: 1s}\n"

func TestBadPlans(t *testing.T) {
	const arms = "arms:\n- {kind: hybrid}\n"
	tests := []struct{ name, file, says string }{
		{"empty", "", "p.yaml: the file is empty"},
		{"no mapping", "- a", `p.yaml:1: give settings`},
		{"two documents", least + "---\n" + least, "p.yaml:5: put the plan into one YAML document"},
		{"no YAML", "arms: [", "p.yaml: yaml: "},
		{"unknown key", "title: x\n" + least, `p.yaml:1: unknown key "title"; the keys here are name, seed`},
		{"unknown key of an arm", "arms:\n- kind: hybrid\n  perod: 1s\n", `p.yaml:3: unknown key "perod"; the keys here are name, kind`},
		{"unknown key of a workload", arms + "workloads:\n- rate: 3\n", `p.yaml:4: unknown key "rate"`},
		{"twice", "seed: 1\nseed: 2\n" + least, `p.yaml:2: "seed" is set already in line 1`},
		{"no value", "seed:\n" + least, "p.yaml:1: seed: it has no value"},
		{"a map for a value", "seed: {a: b}\n" + least, "p.yaml:1: seed: give a plain value"},
		{"an empty list", "arms:\n- triggers: []\n", "p.yaml:2: triggers: the list is empty"},
		{"no list of arms", "arms: hybrid\n", "p.yaml:1: arms: give a list"},
		{"an arm that is a word", "arms: [hybrid]\n", "p.yaml:1: give settings"},
		{"wrong type", "repeats: often\n" + least, `p.yaml:1: repeats: "often" is no whole number`},
		{"negative seed", "seed: -1\n" + least, `p.yaml:1: seed: "-1" is no whole number`},
		{"out of range", "repeats: 0\n" + least, "p.yaml:1: repeats: 0 is not from 1 to 1000"},
		{"no bool", "sequential: perhaps\n" + least, `p.yaml:1: sequential: "perhaps" is neither true nor false`},
		{"duration without unit", "warm-up: 10\n" + least, `p.yaml:1: warm-up: "10" is no duration`},
		{"negative duration", "warm-up: -1s\n" + least, "p.yaml:1: warm-up: the duration -1s is negative"},
		{"bad name", "name: a/b\n" + least, `p.yaml:1: name: "a/b" is no name`},
		{"bad lag", "state-lag: exit 5ms-1ms\n" + least, `p.yaml:1: state-lag: the lag "5ms-1ms" ends before it begins`},
		{"unknown lag", "state-lag: slow\n" + least, `p.yaml:1: state-lag: don't understand the lag "slow"`},
		{"lag of what", "state-lag: run 5ms\n" + least, `p.yaml:1: state-lag: a lag of "run"`},
		{"unknown kind", "arms:\n- kind: hydrid\n", `p.yaml:2: kind: "hydrid" is none of hybrid, kubelet-generic`},
		{"unknown trigger", "arms:\n- triggers: [cgroup, bpf]\n", `p.yaml:2: triggers: triggers "cgroup,bpf"`},
		{"period too short", "arms:\n- period: 1ms\n", "p.yaml:2: period: the duration 1ms is not from 10ms to 1h0m0s"},
		{"no arms", "workloads:\n- {arrivals: none, background: 1, duration: 1s}\n", "p.yaml: the plan has no arms"},
		{"empty arms", "seed: 1\narms: []\nworkloads:\n- {arrivals: none, background: 1, duration: 1s}\n", "p.yaml:2: the plan has no arms"},
		{"no workloads", arms, "p.yaml: the plan has no workloads"},
		{"two arms of a name", "arms:\n- {name: a}\n- {name: a}\nworkloads:\n- {arrivals: none, background: 1, duration: 1s}\n", `p.yaml:3: an arm is called "a" already (p.yaml:2)`},
		{"triggers of another kind", "arms:\n- kind: cri-poll\n  triggers: cri\nworkloads:\n- {arrivals: none, background: 1, duration: 1s}\n", "p.yaml:3: arm cri-poll: an arm of kind cri-poll has no triggers"},
		{"period of events", "arms:\n- kind: cri-events\n  period: 1s\nworkloads:\n- {arrivals: none, background: 1, duration: 1s}\n", "p.yaml:3: arm cri-events-1s: the event stream has no period"},
		{"degraded without triggers", "arms:\n- triggers: none\n  period-degraded: 1s\nworkloads:\n- {arrivals: none, background: 1, duration: 1s}\n", "p.yaml:3: arm relist: only an arm with triggers"},
		{"negative rate", arms + "workloads:\n- arrivals: poisson -2/s\n", "p.yaml:4: arrivals: the rate is -2/s, and must be positive"},
		{"rate without unit", arms + "workloads:\n- arrivals: poisson 2\n", `p.yaml:4: arrivals: "2" is no rate`},
		{"unknown arrivals", arms + "workloads:\n- arrivals: often\n", `p.yaml:4: arrivals: don't understand the arrivals "often"`},
		{"burst of none", arms + "workloads:\n- arrivals: burst 0 every 1s\n", "p.yaml:4: arrivals: a burst of 0 containers"},
		{"burst without pause", arms + "workloads:\n- arrivals: burst 5 every 0s\n", "p.yaml:4: arrivals: bursts every 0s"},
		{"endless arrivals", arms + "workloads:\n- name: w\n  arrivals: poisson 1/s\n", "p.yaml:5: workload w: it does not say when arrivals end"},
		{"endless idling", arms + "workloads:\n- background: 3\n", "p.yaml:4: workload workload-1: nothing arrives, and it does not say how long"},
		{"count of nothing", arms + "workloads:\n- background: 3\n  duration: 1s\n  count: 7\n", "p.yaml:6: workload workload-1: 7 containers are to be started, but nothing arrives"},
		{"nothing at all", arms + "workloads:\n- duration: 3s\n", "there would be no container at all"},
		{"too many", arms + "workloads:\n- {arrivals: fixed 100000/s, duration: 1h}\n", "containers are too many"},
		{"negative background", arms + "workloads:\n- background: -3\n", "p.yaml:4: background: -3 is not from 0 to 1000000"},
		{"negative lifetime", arms + "workloads:\n- lifetime: fixed -3s\n", "p.yaml:4: lifetime: the lifetime -3s is negative"},
		{"lifetime upside down", arms + "workloads:\n- lifetime: uniform 3s 1s\n", "p.yaml:4: lifetime: the shortest lifetime, 3s, is longer than the longest, 1s"},
		{"unknown lifetime", arms + "workloads:\n- lifetime: short\n", `p.yaml:4: lifetime: don't understand the lifetime "short"`},
		{"hopeless bound", arms + "workloads:\n- lifetime: exponential 10s max 1ms\n", "is too little for lifetimes of 10s"},
		{"no file of lifetimes", arms + "workloads:\n- {arrivals: poisson 1/s, count: 1, lifetime: file nowhere}\n", "p.yaml:4: lifetime: open "},
		{"unknown end", arms + "workloads:\n- end: bang\n", `p.yaml:4: end: "bang" is none of exit, stop`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := Parse("p.yaml", []byte(test.file))
			if !errors.Is(err, ErrPlan) || !strings.Contains(err.Error(), test.says) {
				t.Errorf("the error is\n%v\nwant one that says\n%s", err, test.says)
			}
		})
	}
}

func TestAllThatIsWrongIsTold(t *testing.T) {
	_, err := Parse("p.yaml", []byte("sed: 1\narms:\n- period: soon\n- kind: x\nworkloads:\n- arrivals: poisson -1/s\n"))
	for _, at := range []string{"p.yaml:1:", "p.yaml:3:", "p.yaml:4:", "p.yaml:6:"} {
		if err == nil || !strings.Contains(err.Error(), at) {
			t.Errorf("nothing is said of %s: %v", at, err)
		}
	}
}

func TestDefaults(t *testing.T) {
	p, err := Parse("p.yaml", []byte(`
arms:
- {}
- {triggers: cri, period: 300ms}
- {triggers: [cgroup, cri]}
- {kind: cri-events}
- {kind: cri-poll}
- {kind: kubelet-evented}
workloads:
- {arrivals: burst 5 every 2s, count: 50}
`))
	if err != nil {
		t.Fatal(err)
	}
	want := []Arm{
		{Name: "relist", Kind: Hybrid, Period: time.Second},
		{Name: "hybrid-cri-300ms", Kind: Hybrid, Triggers: []string{"cri"}, Period: 300 * time.Millisecond, PeriodDegraded: 300 * time.Millisecond},
		{Name: "hybrid-cgroup-cri", Kind: Hybrid, Triggers: []string{"cgroup", "cri"}, Period: 10 * time.Second, PeriodDegraded: time.Second},
		{Name: "cri-events", Kind: CRIEvents},
		{Name: "cri-poll", Kind: CRIPoll, Period: time.Second},
		{Name: "kubelet-evented", Kind: KubeletEvented, Period: time.Second},
	}
	if got := bare(p.Arms); !reflect.DeepEqual(got, want) {
		t.Errorf("the arms are\n%+v\nwant\n%+v", got, want)
	}
	if got := p.Workloads[0].Arrivals.PerSecond(); got != 2.5 {
		t.Errorf("a burst of 5 every 2s is %g a second", got)
	}
	if got := p.SettleTime(); got != 12*time.Second {
		t.Errorf("the longest period is 10s, and %s are waited, want 12s", got)
	}
}

// bare is arms without where they were read.
func bare(arms []Arm) []Arm {
	out := make([]Arm, len(arms))
	for i, a := range arms {
		a.source = source{}
		out[i] = a
	}
	return out
}

// TestReadyPlans reads each plan that comes with the program, writes it as it is
// written beside the results, and reads that again.
func TestReadyPlans(t *testing.T) {
	if want := []string{"burst", "idle-cost", "periods", "short-lived"}; !reflect.DeepEqual(Ready(), want) {
		t.Errorf("the plans are %v, want %v", Ready(), want)
	}
	for _, name := range Ready() {
		data, err := readyPlan(name)
		if err != nil {
			t.Fatal(err)
		}
		p, err := Parse(name, data)
		if err != nil {
			t.Errorf("%v", err)
			continue
		}
		if p.Name != name {
			t.Errorf("plan %s is called %s", name, p.Name)
		}
		sameAfterWriting(t, p, ".")
	}
}

func sameAfterWriting(t *testing.T, p *Plan, dir string) {
	t.Helper()
	written, err := p.YAML()
	if err != nil {
		t.Fatal(err)
	}
	again, wrong := parse("again", written)
	again, err = again.done(dir, wrong)
	if err != nil {
		t.Fatalf("%v\n%s", err, written)
	}
	strip := func(p *Plan) Plan {
		c := *p
		c.source = source{}
		c.Arms = bare(p.Arms)
		c.Workloads = nil
		for _, w := range p.Workloads {
			w.source = source{}
			c.Workloads = append(c.Workloads, w)
		}
		return c
	}
	if a, b := strip(p), strip(again); !reflect.DeepEqual(a, b) {
		t.Errorf("written and read again it is\n%+v\nwas\n%+v", b, a)
	}
}

func TestLifetimesFromFile(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	file("good", "# seen in production\n300ms\n1.5   # seconds\n\n2m\n")
	plan := file("p.yaml", "arms: [{kind: cri-poll}]\nstate-lag: exit 50ms\nworkloads:\n- {arrivals: fixed 90/m, duration: 7s, lifetime: file good}\n")
	p, err := Read(plan)
	if err != nil {
		t.Fatal(err)
	}
	want := []time.Duration{300 * time.Millisecond, 1500 * time.Millisecond, 2 * time.Minute}
	if got := p.Workloads[0].Lifetime.Observed; !reflect.DeepEqual(got, want) {
		t.Errorf("the lifetimes are %v, want %v", got, want)
	}
	if got := p.Workloads[0].Lifetime.Mean(); got.Round(time.Millisecond) != 40600*time.Millisecond {
		t.Errorf("their mean is %s", got)
	}
	sameAfterWriting(t, p, dir)

	for text, says := range map[string]string{
		"300ms\nsoon\n": `bad:2: "soon" is neither a duration nor a number of seconds`,
		"-1s":           "bad:1: the lifetime -1s is negative",
		"# none\n":      "holds no lifetime",
		"NaN":           "neither a duration nor",
	} {
		path := file("bad", text)
		var l Lifetime
		if err := l.load(path); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: the error is %v, want one that says %q", text, err, says)
		}
	}
}

func TestFlags(t *testing.T) {
	made := func(args ...string) (*Plan, error) {
		var f Flags
		set := pflag.NewFlagSet("test", pflag.ContinueOnError)
		f.Register(set)
		if err := set.Parse(args); err != nil {
			t.Fatal(err)
		}
		return f.Make()
	}
	p, err := made("--arm", "name=a triggers=cgroup,cri period=5s", "--arm=kind=cri-poll period=100ms", "--sequential",
		"--background=7", "--arrivals", "poisson 3/s", "--lifetime", "uniform 0s 50ms", "--duration", "3s", "--seed=9", "--name=mine")
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Arms) != 2 || p.Arms[0].Name != "a" || p.Arms[1].Name != "cri-poll-100ms" || !p.Sequential || p.Seed != 9 || p.Name != "mine" {
		t.Errorf("the plan is %+v", p)
	}
	if w := p.Workloads[0]; len(p.Workloads) != 1 || w.Background != 7 || w.Arrivals != (Arrivals{Kind: Poisson, Rate: 3}) || w.Lifetime.Max != 50*time.Millisecond {
		t.Errorf("the workload is %+v", w)
	}
	sameAfterWriting(t, p, ".")

	if p, err = made("--plan", "periods", "--duration=20s", "--settle=5s"); err != nil {
		t.Fatal(err)
	}
	if p.Workloads[0].Duration != 20*time.Second || p.SettleTime() != 5*time.Second || len(p.Arms) != 8 || p.Workloads[0].Background != 20 {
		t.Errorf("the changed plan is %+v", p)
	}

	for _, bad := range []struct {
		args []string
		says string
	}{
		{[]string{"--plan", "priods"}, `there is no plan "priods": give a file, or one of burst, idle-cost`},
		{[]string{"--plan", "./no.yaml"}, "no.yaml: no such file"},
		{[]string{"--plan", "periods", "--arrivals=poisson -1/s"}, "--arrivals: the rate is -1/s"},
		{[]string{"--plan", "periods", "--arm", "knid=x"}, `--arm "knid=x": "knid=x" is no setting`},
		{[]string{"--plan", "periods", "--arm", "period=never"}, `--arm "period=never": period: "never" is no duration`},
		{[]string{"--plan", "idle-cost", "--count=5"}, "--count: workload idle: 5 containers are to be started"},
		{[]string{"--arm", "kind=hybrid"}, "the command line: workload workload-1: nothing arrives"},
		{[]string{"--background=1", "--duration=1s"}, "the command line: the plan has no arms"},
	} {
		if _, err := made(bad.args...); !errors.Is(err, ErrPlan) || !strings.Contains(err.Error(), bad.says) {
			t.Errorf("%q: the error is %v, want one that says %q", bad.args, err, bad.says)
		}
	}
}

// FuzzParse finds no file that does more than fail, and none that changes when it is
// written and read again.
func FuzzParse(f *testing.F) {
	f.Add([]byte(least))
	f.Add([]byte("state-lag: exit 50ms\n" + least))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := Parse("p.yaml", data)
		if err != nil {
			if !errors.Is(err, ErrPlan) {
				t.Error(err)
			}
			return
		}
		sameAfterWriting(t, p, ".")
	})
}
