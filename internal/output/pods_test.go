package output

import (
	"bytes"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
)

// samplePods are a pod that was restarted in part, one that has ended, and what there
// is of one whose sandbox is gone.
func samplePods() []event.PodStatus {
	ago := func(d time.Duration) time.Time { return noon.Add(-d) }
	return []event.PodStatus{
		{
			Pod: event.Pod{UID: "11111111-2222", Namespace: "shop", Name: "checkout-8w2g2567q-d6qkn"},
			Sandboxes: []event.SandboxStatus{
				{Sandbox: event.Sandbox{ID: "5a5a", Attempt: 1}, State: event.StateRunning, CreatedAt: ago(90 * time.Minute)},
				{Sandbox: event.Sandbox{ID: "5050"}, State: event.StateExited, CreatedAt: ago(3 * time.Hour)},
			},
			Containers: []event.ContainerStatus{
				{Container: event.Container{ID: "c0c0", Name: "api", Image: "registry/api:1"}, State: event.StateExited, CreatedAt: ago(90 * time.Minute),
					Status: &event.Status{ExitCode: ptr(int32(137)), Reason: "OOMKilled"}},
				{Container: event.Container{ID: "c1c1", Name: "api", Attempt: 1, Image: "registry/api:1"}, State: event.StateRunning, CreatedAt: ago(5 * time.Minute),
					Status: &event.Status{Pid: 4711, CgroupPath: "/kubepods/pod1/c1c1"}},
				{Container: event.Container{ID: "cccc", Name: "proxy"}, State: event.StateCreated, CreatedAt: ago(3 * time.Second)},
			},
		},
		{
			Pod:       event.Pod{UID: "33333333-4444", Namespace: "システム", Name: "job"},
			Sandboxes: []event.SandboxStatus{{Sandbox: event.Sandbox{ID: "6b6b"}, State: event.StateExited, CreatedAt: ago(50 * time.Hour)}},
		},
		{
			Pod:        event.Pod{UID: "7070"},
			Containers: []event.ContainerStatus{{Container: event.Container{ID: "d0d0"}, State: event.StateUnknown}},
		},
	}
}

func table(t *testing.T, opts PodTableOptions, calls ...[]event.PodStatus) string {
	t.Helper()
	var b bytes.Buffer
	opts.Now = func() time.Time { return noon }
	pt := NewPodTable(&b, opts)
	for _, pods := range calls {
		if err := pt.Write(pods); err != nil {
			t.Fatal(err)
		}
	}
	return b.String()
}

func TestPodTable(t *testing.T) {
	tests := []struct {
		name string
		got  string
		want string
	}{
		{"none", table(t, PodTableOptions{}, nil), `
NAMESPACE  POD  STATE  CONTAINERS  RESTARTS  AGE
`},
		{"table", table(t, PodTableOptions{}, samplePods()), `
NAMESPACE  POD                       STATE    CONTAINERS  RESTARTS  AGE
shop       checkout-8w2g2567q-d6qkn  running  1/2         1         90m
システム   job                       exited   0/0         0         2d2h
-          7070                      unknown  0/1         0         -
`},
		{"wide", table(t, PodTableOptions{Wide: true}, samplePods()), `
NAMESPACE  POD                       STATE    CONTAINERS    RESTARTS  AGE   UID            SANDBOX
shop       checkout-8w2g2567q-d6qkn  running  1/2           1         90m   11111111-2222  5a5a
             api                     exited   exit 137 OOM            90m   c0c0  registry/api:1
             api#1                   running                          5m    c1c1  registry/api:1  pid 4711  /kubepods/pod1/c1c1
             proxy                   created                          3s    cccc  -
システム   job                       exited   0/0           0         2d2h  33333333-4444  6b6b
-          7070                      unknown  0/1           0         -     7070           -
             -                       unknown                          -     d0d0  -
`},
		{"again", table(t, PodTableOptions{}, samplePods(), []event.PodStatus{{Pod: event.Pod{Namespace: "a", Name: "b"}}}), `
NAMESPACE  POD                       STATE    CONTAINERS  RESTARTS  AGE
shop       checkout-8w2g2567q-d6qkn  running  1/2         1         90m
システム   job                       exited   0/0         0         2d2h
-          7070                      unknown  0/1         0         -
a          b                         gone     0/0         0         -
`},
		{"coloured", table(t, PodTableOptions{Colour: true}, []event.PodStatus{{Pod: event.Pod{Namespace: "a", Name: "b"}}}), `
NAMESPACE  POD  STATE  CONTAINERS  RESTARTS  AGE
a          b    ` + "\x1b[90mgone\x1b[0m" + `   0/0         0         -
`},
	}
	for _, tt := range tests {
		if tt.got != tt.want[1:] {
			t.Errorf("%s:\n%swant\n%s", tt.name, tt.got, tt.want[1:])
		}
	}
}

func TestPodTableOfNastyNames(t *testing.T) {
	for name, s := range nasty {
		pods := []event.PodStatus{{
			Pod:        event.Pod{UID: s, Namespace: s, Name: s},
			Sandboxes:  []event.SandboxStatus{{Sandbox: event.Sandbox{ID: s}, State: event.State(s)}},
			Containers: []event.ContainerStatus{{Container: event.Container{ID: s, Name: s, Image: s}, State: event.State(s), Status: &event.Status{Reason: s, CgroupPath: s}}},
		}}
		got := table(t, PodTableOptions{Wide: true}, pods)
		if lines := strings.Count(got, "\n"); lines != 3 {
			t.Errorf("%s: %d lines", name, lines)
		}
		if !utf8.ValidString(got) || strings.ContainsFunc(got, func(r rune) bool {
			return r != '\n' && (r < ' ' || r >= 0x7f && r < 0xa0 || r >= 0x202a && r <= 0x202e)
		}) {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestWideLines(t *testing.T) {
	e := sample(event.ContainerStarted)
	e.Container.Image = "registry/api:1"
	e.Status = &event.Status{Pid: 4711, CgroupPath: "/kubepods/x"}
	opts := TextOptions{Wide: true, Width: func() int { return 40 }}
	want := "12:00:00.005  ● started       shop/web-6pf4p/api                          cri +1.2ms  c0c0c0c0c0c0c0c0  image registry/api:1  pid 4711  cgroup /kubepods/x"
	if got := lines(t, opts, e)[0]; got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
	want = "12:00:00.005  ▲ sandbox up    shop/web-6pf4p                              cri +1.2ms  5a5a5a5a5a5a5a5a"
	if got := lines(t, opts, sample(event.SandboxStarted))[0]; got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
}
