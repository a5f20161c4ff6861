package embedded

import (
	"fmt"
	"slices"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func TestFilters(t *testing.T) {
	r := newRuntime(t, Options{Lag: NoLag()})
	podA, configA := runPod(t, r, "a")
	podB, configB := runPod(t, r, "b")
	one := startContainer(t, r, podA, configA, "one")
	two := startContainer(t, r, podA, configA, "two", "exit", "0")
	three := startContainer(t, r, podB, configB, "three")
	if err := r.StopPod(t.Context(), podB); err != nil {
		t.Fatal(err)
	}

	is := func(s runtimeapi.ContainerState) *runtimeapi.ContainerStateValue {
		return &runtimeapi.ContainerStateValue{State: s}
	}
	for name, c := range map[string]struct {
		filter *runtimeapi.ContainerFilter
		want   []string
	}{
		"none":                  {nil, []string{one, two, three}},
		"empty":                 {&runtimeapi.ContainerFilter{}, []string{one, two, three}},
		"id":                    {&runtimeapi.ContainerFilter{Id: two}, []string{two}},
		"beginning of an id":    {&runtimeapi.ContainerFilter{Id: two[:13]}, []string{two}},
		"unknown id":            {&runtimeapi.ContainerFilter{Id: podA}, nil},
		"ambiguous":             {&runtimeapi.ContainerFilter{Id: ""}, []string{one, two, three}},
		"state":                 {&runtimeapi.ContainerFilter{State: is(running)}, []string{one}},
		"created, which is 0":   {&runtimeapi.ContainerFilter{State: is(created)}, nil},
		"sandbox":               {&runtimeapi.ContainerFilter{PodSandboxId: podA}, []string{one, two}},
		"beginning of sandbox":  {&runtimeapi.ContainerFilter{PodSandboxId: podB[:13]}, []string{three}},
		"unknown sandbox":       {&runtimeapi.ContainerFilter{PodSandboxId: one}, nil},
		"id in wrong sandbox":   {&runtimeapi.ContainerFilter{Id: one, PodSandboxId: podB}, nil},
		"sandbox and state":     {&runtimeapi.ContainerFilter{PodSandboxId: podA, State: is(exited)}, []string{two}},
		"label":                 {&runtimeapi.ContainerFilter{LabelSelector: map[string]string{labelContainerName: "one"}}, []string{one}},
		"label with wrong text": {&runtimeapi.ContainerFilter{LabelSelector: map[string]string{labelContainerName: ""}}, nil},
		"label that none has":   {&runtimeapi.ContainerFilter{LabelSelector: map[string]string{"x": ""}}, nil},
	} {
		list, err := r.Client().ListContainers(t.Context(), c.filter)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, item := range list {
			got = append(got, item.Id)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}

	for name, c := range map[string]struct {
		filter *runtimeapi.PodSandboxFilter
		want   []string
	}{
		"none":  {nil, []string{podA, podB}},
		"id":    {&runtimeapi.PodSandboxFilter{Id: podB}, []string{podB}},
		"state": {&runtimeapi.PodSandboxFilter{State: &runtimeapi.PodSandboxStateValue{State: notReady}}, []string{podB}},
		"ready, which is 0": {&runtimeapi.PodSandboxFilter{State: &runtimeapi.PodSandboxStateValue{State: ready}},
			[]string{podA}},
		"label":   {&runtimeapi.PodSandboxFilter{LabelSelector: map[string]string{labelPodName: "a"}}, []string{podA}},
		"unknown": {&runtimeapi.PodSandboxFilter{Id: "zz"}, nil},
	} {
		list, err := r.Client().ListPodSandbox(t.Context(), c.filter)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, item := range list {
			got = append(got, item.Id)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("sandboxes, %s: got %q, want %q", name, got, c.want)
		}
	}
}

func TestTableKeepsOrder(t *testing.T) {
	tab := newTable[*sandbox]("thing")
	var all []*sandbox
	for i := range 100 {
		s := &sandbox{id: fmt.Sprintf("%064d", i), number: uint64(i)}
		tab.add(s)
		all = append(all, s)
	}
	for i := 0; i < 100; i += 3 {
		tab.remove(all[i])
	}
	all = slices.DeleteFunc(all, func(s *sandbox) bool { return s.number%3 == 0 })
	if !slices.Equal(tab.order, all) || len(tab.byID) != len(all) {
		t.Errorf("%d in order and %d by ID, want %d", len(tab.order), len(tab.byID), len(all))
	}
	if s, err := tab.find("00000000"); err == nil {
		t.Errorf("an ambiguous beginning found %s", s.id)
	}
}

func BenchmarkListContainers10000(b *testing.B) {
	r := newRuntime(b, Options{Lag: NoLag()})
	for i := range 1000 {
		pod, config := runPod(b, r, fmt.Sprint(i))
		for j := range 10 {
			startContainer(b, r, pod, config, fmt.Sprint(j))
		}
	}
	c := r.Client()
	b.ResetTimer()
	for b.Loop() {
		if list, err := c.ListContainers(b.Context(), nil); err != nil || len(list) != 10000 {
			b.Fatal(len(list), err)
		}
	}
}
