package merge

import (
	"strings"
	"testing"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/relist"
)

// Other labels of a sandbox are no event; the next snapshot has them.
func TestOtherLabelsReachTheSnapshot(t *testing.T) {
	l, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	pod := event.Pod{UID: "p"}
	l.Publish([]relist.Change{{Type: event.SandboxStarted, Pod: pod, Sandbox: &event.Sandbox{ID: "s"}, To: event.StateRunning}})
	l.Snapshot()
	told := l.Publish([]relist.Change{{
		Pod: pod, Sandbox: &event.Sandbox{ID: "s", Labels: map[string]string{"app": "web"}},
		From: event.StateRunning, To: event.StateRunning,
	}})
	if len(told) != 0 {
		t.Errorf("told %+v", told)
	}
	sandboxes := l.Snapshot().Pods[0].Sandboxes
	if len(sandboxes) != 1 || sandboxes[0].Sandbox.Labels["app"] != "web" || sandboxes[0].State != event.StateRunning {
		t.Errorf("in the snapshot: %+v", sandboxes)
	}
}

// A PodSync that carries a sandbox is about the pod all the same: it is told
// although nothing is known of that sandbox, and makes nothing known of it.
func TestPodSyncWithASandbox(t *testing.T) {
	l, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	sandbox := &event.Sandbox{ID: "s", Labels: map[string]string{"app": "web"}}
	told := l.Publish([]relist.Change{{Type: event.PodSync, Pod: event.Pod{UID: "p"}, Sandbox: sandbox}})
	if len(told) != 1 || !strings.HasPrefix(told[0].ID, "p/PodSync/") || told[0].Sandbox != sandbox {
		t.Errorf("told %+v", told)
	}
	if pods := l.Snapshot().Pods; len(pods) != 0 {
		t.Errorf("in the snapshot: %+v", pods)
	}
}
