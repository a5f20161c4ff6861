package relist

import (
	"maps"
	"testing"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// labelled is an observation of a pod with a sandbox and a container in a state.
func labelled(labels, annotations map[string]string, st runtimeapi.ContainerState) *Observation {
	return &Observation{
		At: time.Now(),
		Sandboxes: []*runtimeapi.PodSandbox{{
			Id: "s", Metadata: &runtimeapi.PodSandboxMetadata{Uid: "p"}, Labels: labels, Annotations: annotations,
		}},
		Containers: []*runtimeapi.Container{{Id: "c", PodSandboxId: "s", State: st}},
	}
}

func TestLabels(t *testing.T) {
	anomalies := 0
	s := NewStore(StoreOptions{OnAnomaly: func(a Anomaly) {
		if a == AnomalyInvalidUTF8 {
			anomalies++
		}
	}})
	labels := map[string]string{
		labelPodUID: "p", labelPodName: "web-0", labelPodNamespace: "shop",
		"app": "web", "odd\xff": "\xfe",
	}
	annotations := map[string]string{"note": "two\nlines", "odd": "\xff"}
	got := s.Apply(labelled(labels, annotations, isRunning), nil)
	sandbox := got[0].Changes[0].Sandbox
	if want := map[string]string{"app": "web", "odd\uFFFD": "\uFFFD"}; !maps.Equal(sandbox.Labels, want) {
		t.Errorf("labels %q, want %q", sandbox.Labels, want)
	}
	if want := map[string]string{"note": "two\nlines", "odd": "\uFFFD"}; !maps.Equal(sandbox.Annotations, want) {
		t.Errorf("annotations %q, want %q", sandbox.Annotations, want)
	}
	for _, c := range got[0].Changes {
		if c.Sandbox != sandbox {
			t.Errorf("%s has a copy of the sandbox", c.Type)
		}
	}
	for range 3 {
		if got := s.Apply(labelled(labels, annotations, isRunning), nil); got != nil {
			t.Errorf("the same again: %+v", got)
		}
	}
	got = s.Apply(labelled(labels, annotations, isExited), nil)
	if c := got[0].Changes[0]; c.Type != event.ContainerDied || c.Sandbox != sandbox {
		t.Errorf("%s with another sandbox", c.Type)
	}
	if anomalies != 1 {
		t.Errorf("told of invalid text %d times, want once", anomalies)
	}

	bare := NewStore(StoreOptions{}).Apply(labelled(map[string]string{labelPodUID: "p"}, nil, isRunning), nil)
	if sb := bare[0].Changes[0].Sandbox; sb.Labels != nil || sb.Annotations != nil {
		t.Errorf("of nothing worth telling: %+v", sb)
	}
}

// Other labels than those that were known before a restart make no event, but all that
// follows has them, and whoever keeps the sandbox is told.
func TestOtherLabels(t *testing.T) {
	one, two := map[string]string{"app": "web"}, map[string]string{"app": "web", "tier": "front"}
	tests := []struct {
		name                        string
		labels, annotations         map[string]string
		nextLabels, nextAnnotations map[string]string
	}{
		{"none before", nil, nil, one, two},
		{"one more", one, one, two, one},
		{"one less", two, one, one, one},
		{"another key", one, nil, map[string]string{"name": "web"}, nil},
		{"another value", one, one, one, map[string]string{"app": "db"}},
		{"an empty value", map[string]string{"a": ""}, nil, map[string]string{"b": ""}, nil},
		{"none any more", one, one, nil, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			was := NewStore(StoreOptions{})
			before := was.Apply(labelled(tt.labels, tt.annotations, isRunning), nil)[0].Changes[0].Sandbox
			s := NewStore(StoreOptions{})
			s.restore(restoredFrom(was), nil)
			late := labelled(two, two, isRunning) // begun before the next, applied after it
			got := s.Apply(labelled(tt.nextLabels, tt.nextAnnotations, isRunning), nil)
			if len(got) != 1 || len(got[0].Changes) != 1 {
				t.Fatalf("changes: %+v", got)
			}
			c := got[0].Changes[0]
			if c.Type != "" || c.ItemID() != "s" || c.From != event.StateRunning || c.To != c.From {
				t.Errorf("told: %+v", c)
			}
			if c.Sandbox == before || !maps.Equal(c.Sandbox.Labels, tt.nextLabels) || !maps.Equal(c.Sandbox.Annotations, tt.nextAnnotations) {
				t.Errorf("sandbox %+v", c.Sandbox)
			}
			if !maps.Equal(before.Labels, tt.labels) || !maps.Equal(before.Annotations, tt.annotations) {
				t.Errorf("what was told before is %+v now", before)
			}
			if got := s.Apply(late, nil); got != nil {
				t.Errorf("an older observation: %+v", got)
			}
			got = s.Apply(labelled(tt.nextLabels, tt.nextAnnotations, isExited), nil)
			if len(got) != 1 || len(got[0].Changes) != 1 || got[0].Changes[0].Sandbox != c.Sandbox {
				t.Errorf("the container's end: %+v", got)
			}
		})
	}
}

// The change that a sandbox has anyway brings its labels.
func TestOtherLabelsWithAnEvent(t *testing.T) {
	was := NewStore(StoreOptions{})
	was.Apply(labelled(nil, nil, isRunning), nil)
	s := NewStore(StoreOptions{})
	s.restore(restoredFrom(was), nil)
	o := labelled(map[string]string{"app": "web"}, nil, isRunning)
	o.Sandboxes[0].State = runtimeapi.PodSandboxState_SANDBOX_NOTREADY
	got := s.Apply(o, nil)
	if len(got) != 1 || len(got[0].Changes) != 1 {
		t.Fatalf("changes: %+v", got)
	}
	if c := got[0].Changes[0]; c.Type != event.SandboxDied || c.Sandbox.Labels["app"] != "web" {
		t.Errorf("told: %+v", c)
	}
}

// TestNewestSandbox asserts that a PodSync about a whole pod has the labels that the
// pod was last given.
func TestNewestSandbox(t *testing.T) {
	s := NewStore(StoreOptions{})
	o := &Observation{At: time.Now(), Containers: []*runtimeapi.Container{{Id: "c", PodSandboxId: "b"}}}
	for _, sb := range []struct {
		id      string
		attempt uint32
		at      int64
	}{{"a", 1, 30}, {"b", 2, 10}, {"c1", 2, 20}, {"d", 0, 40}} {
		o.Sandboxes = append(o.Sandboxes, &runtimeapi.PodSandbox{
			Id: sb.id, CreatedAt: sb.at, Metadata: &runtimeapi.PodSandboxMetadata{Uid: "p", Attempt: sb.attempt},
		})
	}
	s.Apply(o, nil)
	if c, ok := s.podAsked("p"); !ok || c.Type != event.PodSync || c.Pod.UID != "p" || c.Sandbox.ID != "c1" || c.ItemID() != "" {
		t.Errorf("%t: %+v", ok, c)
	}
	if _, ok := s.podAsked("q"); ok {
		t.Error("a pod that is not there")
	}
	s.Apply(&Observation{At: time.Now(), Containers: []*runtimeapi.Container{{Id: "alone", Labels: map[string]string{labelPodUID: "q"}}}}, nil)
	if c, ok := s.podAsked("q"); !ok || c.Sandbox != nil {
		t.Errorf("a pod without a sandbox: %t, %+v", ok, c)
	}
}
