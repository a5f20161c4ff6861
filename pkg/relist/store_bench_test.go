package relist

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const (
	benchContainers = 10_000
	benchPerPod     = 10
)

// node makes up what a runtime that holds n containers would list, with fresh
// strings as a decoder makes them, and in no order, as containerd lists.
func node(n, perPod int, at time.Time) *Observation {
	o := &Observation{At: at}
	id := func(kind string, i int) string {
		return strings.Repeat(fmt.Sprintf("%s%07x", kind, i*2654435761%(1<<28)), 8)
	}
	for i := range n / perPod {
		uid := fmt.Sprintf("6f1c1c0a-9b1e-4f5e-8a4b-%012d", i)
		sandbox := id("a", i)
		o.Sandboxes = append(o.Sandboxes, &runtimeapi.PodSandbox{
			Id:       sandbox,
			Metadata: &runtimeapi.PodSandboxMetadata{Name: fmt.Sprintf("web-%d", i), Namespace: "default", Uid: uid},
			Labels: map[string]string{
				labelPodUID: uid, labelPodNamespace: "default", labelPodName: fmt.Sprintf("web-%d", i),
				"app.kubernetes.io/name": fmt.Sprintf("web-%d", i%100), "pod-template-hash": fmt.Sprintf("%09d", i%100),
				"statefulset.kubernetes.io/pod-name": fmt.Sprintf("web-%d", i),
			},
			Annotations: map[string]string{
				"kubernetes.io/config.source": "api", "kubernetes.io/config.seen": fmt.Sprintf("2026-01-02T03:04:05.%09dZ", i),
				"prometheus.io/scrape": "true",
			},
			CreatedAt: int64(i + 1),
		})
		for j := range perPod {
			o.Containers = append(o.Containers, &runtimeapi.Container{
				Id:           id("c", i*perPod+j),
				PodSandboxId: strings.Clone(sandbox),
				Metadata:     &runtimeapi.ContainerMetadata{Name: fmt.Sprintf("app-%d", j)},
				Image:        &runtimeapi.ImageSpec{Image: fmt.Sprintf("registry.example/team/service-%d:v1.2.3", j)},
				State:        runtimeapi.ContainerState_CONTAINER_RUNNING,
				CreatedAt:    int64(i + 2),
			})
		}
	}
	rng := rand.New(rand.NewPCG(uint64(at.UnixNano()), 1))
	rng.Shuffle(len(o.Sandboxes), func(i, j int) { o.Sandboxes[i], o.Sandboxes[j] = o.Sandboxes[j], o.Sandboxes[i] })
	rng.Shuffle(len(o.Containers), func(i, j int) { o.Containers[i], o.Containers[j] = o.Containers[j], o.Containers[i] })
	return o
}

// BenchmarkApplyUnchanged applies a global observation of 10,000 containers of
// which none has changed. Its strings are not those that the store keeps, nor is
// its order that in which they were added.
func BenchmarkApplyUnchanged(b *testing.B) {
	s := NewStore(StoreOptions{})
	s.Apply(node(benchContainers, benchPerPod, time.Now()), nil)
	o := node(benchContainers, benchPerPod, time.Now())
	b.ReportAllocs()
	for b.Loop() {
		o.At = time.Now()
		if got := s.Apply(o, nil); got != nil {
			b.Fatalf("changes: %v", got)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/benchContainers, "ns/container")
}

// BenchmarkApplyOnePercent applies observations in which one container in a
// hundred has changed.
func BenchmarkApplyOnePercent(b *testing.B) {
	s := NewStore(StoreOptions{})
	o := node(benchContainers, benchPerPod, time.Now())
	s.Apply(o, nil)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		for j := i % 100; j < len(o.Containers); j += 100 {
			c := o.Containers[j]
			if c.State == runtimeapi.ContainerState_CONTAINER_RUNNING {
				c.State = runtimeapi.ContainerState_CONTAINER_EXITED
			} else {
				c.State = runtimeapi.ContainerState_CONTAINER_RUNNING
			}
		}
		o.At = time.Now()
		if got := s.Apply(o, nil); len(got) == 0 {
			b.Fatal("no changes")
		}
	}
}

// BenchmarkApplyPod applies observations of one pod while 10,000 containers are
// known.
func BenchmarkApplyPod(b *testing.B) {
	s := NewStore(StoreOptions{})
	o := node(benchContainers, benchPerPod, time.Now())
	s.Apply(o, nil)
	pod := &Observation{PodUID: o.Sandboxes[0].Metadata.Uid, Sandboxes: o.Sandboxes[:1]}
	for _, c := range o.Containers {
		if c.PodSandboxId == o.Sandboxes[0].Id {
			pod.Containers = append(pod.Containers, c)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		pod.At = time.Now()
		s.Apply(pod, nil)
	}
}

// BenchmarkHeap reports what is held for each running container: by the store, its
// share of the sandbox with its labels and of the pod included; and for what was told
// at its start, which the journal or a snapshot may well hold anyway.
func BenchmarkHeap(b *testing.B) {
	var records, started float64
	for b.Loop() {
		records, started = heapPerContainer()
	}
	b.ReportMetric(records, "B/container")
	b.ReportMetric(started, "B/start")
}

func heapPerContainer() (records, started float64) {
	s := NewStore(StoreOptions{})
	before := heap()
	s.Apply(node(benchContainers, benchPerPod, time.Now()), nil)
	records = (heap() - before) / benchContainers
	var told starts
	before = heap()
	for id, rec := range s.items.all() {
		if rec.container != nil {
			told.keep(id, &event.Status{Pid: 1, CgroupPath: "/kubepods/burstable/pod" + rec.pod.pod.UID + "/" + id})
		}
	}
	started = (heap() - before) / benchContainers
	runtime.KeepAlive(s)
	runtime.KeepAlive(told.of)
	return records, started
}

func heap() float64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// TestApplyUnchangedAllocates asserts that applying what has not changed costs no
// memory for each container.
func TestApplyUnchangedAllocates(t *testing.T) {
	for _, n := range []int{100, 10_000} {
		s := NewStore(StoreOptions{})
		s.Apply(node(n, benchPerPod, time.Now()), nil)
		o := node(n, benchPerPod, time.Now())
		got := testing.AllocsPerRun(10, func() {
			o.At = time.Now()
			s.Apply(o, nil)
		})
		if got > 4 {
			t.Errorf("%d unchanged containers: %v allocations, want a few at most", n, got)
		}
	}
}

// TestHeapPerContainer keeps what is held for a container from growing unnoticed.
func TestHeapPerContainer(t *testing.T) {
	if records, started := heapPerContainer(); records > 450 || started > 350 {
		t.Errorf("a container's record holds %.0f B, its start %.0f B; want less than 450 and 350", records, started)
	}
}
