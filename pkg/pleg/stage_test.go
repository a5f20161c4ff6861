package pleg_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/internal/embedded"
	"github.com/hybrid-pleg/hybrid-pleg/internal/embedded/cgrouptree"
	"github.com/hybrid-pleg/hybrid-pleg/internal/eventtest"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/pleg"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/trigger"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"go.uber.org/goleak"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds every wait. What is waited for comes far sooner on an idle
// machine.
const patience = time.Minute

// The triggers that work on the embedded runtime.
var (
	noTriggers  = []trigger.SourceName{}
	onlyCgroup  = []trigger.SourceName{trigger.SourceCgroup}
	onlyCRI     = []trigger.SourceName{trigger.SourceCRI}
	allTriggers = []trigger.SourceName{trigger.SourceCgroup, trigger.SourceCRI}
)

// stage is an embedded runtime behind its socket, a generator that runs on it,
// and what the generator told.
type stage struct {
	t      testing.TB
	rt     *embedded.Runtime
	server *embedded.Server
	tree   *cgrouptree.Tree
	g      *pleg.Generator
	reg    *prometheus.Registry
	log    *safeBuffer
	stop   func() // ends the generator's Run

	mu     sync.Mutex
	events []event.Event
}

// newStage sets a runtime up. The generator comes with run, so that a test may
// let things happen before it.
func newStage(t testing.TB) *stage {
	t.Helper()
	tree, err := cgrouptree.New(t.TempDir())
	check(t, err)
	t.Cleanup(func() { check(t, tree.Close()) })
	rt := embedded.New(embedded.Options{Mirror: tree})
	t.Cleanup(func() { check(t, rt.Close()) })
	server, err := embedded.Serve(context.Background(), rt, "")
	check(t, err)
	t.Cleanup(func() { check(t, server.Close()) })
	return &stage{t: t, rt: rt, server: server, tree: tree, reg: prometheus.NewRegistry(), log: &safeBuffer{}}
}

// run makes the generator and runs it until the test ends. What change does not
// set is for a test: short periods, the triggers that work here.
func (s *stage) run(change func(*pleg.Options)) {
	s.t.Helper()
	opts := pleg.Options{
		Endpoint:             s.server.Endpoint(),
		Triggers:             allTriggers,
		CgroupRoot:           s.tree.Root(),
		RelistPeriod:         time.Second,
		RelistPeriodDegraded: 100 * time.Millisecond,
		Registerer:           s.reg,
		Log:                  slog.New(slog.NewTextHandler(s.log, nil)),
		OnEvent: func(e *event.Event) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.events = append(s.events, *e)
		},
	}
	if change != nil {
		change(&opts)
	}
	g, err := pleg.New(opts)
	check(s.t, err)
	s.g = g
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- g.Run(ctx) }()
	s.stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-ended:
			check(s.t, err)
		case <-time.After(patience):
			s.t.Error("Run did not end")
		}
	})
	s.t.Cleanup(func() {
		s.stop()
		if err := eventtest.CheckLaw(s.told()); err != nil {
			s.t.Errorf("the law is broken:\n%v", err)
		}
		if s.t.Failed() {
			s.t.Logf("events:\n%s\nlog:\n%s", strings.Join(describe(s.told()), "\n"), s.log)
		}
	})
}

// told are the events so far.
func (s *stage) told() []event.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.events)
}

func describe(events []event.Event) []string {
	out := make([]string, len(events))
	for i, e := range events {
		out[i] = fmt.Sprintf("%4d %s %s/%s %s→%s by %s %s %s", e.Sequence, e.ID, e.Pod.Namespace, e.Pod.Name, e.From, e.To,
			e.Detection.FoundBy, e.Detection.Trigger, e.StatusMissing)
	}
	return out[max(0, len(out)-200):]
}

// until waits until ok is content.
func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("after %s still not: %s", patience, what)
		}
		<-time.After(2 * time.Millisecond)
	}
}

// await waits for an event of a type about a container or sandbox.
func (s *stage) await(id string, typ event.Type) event.Event {
	s.t.Helper()
	var found event.Event
	until(s.t, fmt.Sprintf("%s of %.12s is told", typ, id), func() bool {
		for _, e := range s.told() {
			if e.Type == typ && (e.ID == id+"/"+string(typ) || strings.HasPrefix(e.ID, id+"/PodSync/")) {
				found = e
				return true
			}
		}
		return false
	})
	return found
}

// never says that none of these types was told of an item.
func (s *stage) never(id string, types ...event.Type) {
	s.t.Helper()
	for _, typ := range eventtest.OfItem(s.told(), id) {
		if slices.Contains(types, typ) {
			s.t.Errorf("%s of %.12s was told", typ, id)
		}
	}
}

// relisted waits until everything was listed anew with success, begun after the
// call.
func (s *stage) relisted() {
	s.t.Helper()
	now := float64(time.Now().UnixNano()) / 1e9
	s.g.RequestRelist("")
	until(s.t, "everything is relisted", func() bool { return s.metric("last_relist_timestamp_seconds") > now })
}

// metric is the sum of a metric over the series that have all the label values
// given.
func (s *stage) metric(name string, labels ...string) float64 {
	s.t.Helper()
	families, err := s.reg.Gather()
	check(s.t, err)
	sum := 0.0
	for _, f := range families {
		if f.GetName() != "hybrid_pleg_"+name {
			continue
		}
		for _, m := range f.Metric {
			if hasAll(m.Label, labels) {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return sum
}

func hasAll(have []*dto.LabelPair, want []string) bool {
	for _, v := range want {
		if !slices.ContainsFunc(have, func(l *dto.LabelPair) bool { return l.GetValue() == v }) {
			return false
		}
	}
	return true
}

// pod makes a pod with a sandbox and returns the sandbox' ID.
func (s *stage) pod(name string) (sandbox string, config *runtimeapi.PodSandboxConfig) {
	s.t.Helper()
	config = embedded.PodConfig("test", name, uid(name), 0, embedded.Burstable)
	sandbox, err := s.rt.RunPod(context.Background(), config)
	check(s.t, err)
	return sandbox, config
}

// container makes a container in a pod and starts it.
func (s *stage) container(sandbox string, config *runtimeapi.PodSandboxConfig, name string, attempt uint32, command ...string) string {
	s.t.Helper()
	id, err := s.rt.Create(context.Background(), sandbox, embedded.ContainerConfig(config, name, attempt, "image", command...))
	check(s.t, err)
	check(s.t, s.rt.Start(context.Background(), id))
	return id
}

// uid makes a pod UID of a name.
func uid(name string) string {
	return fmt.Sprintf("00000000-0000-4000-8000-%012x", fnv(name)&0xffffffffffff)
}

func fnv(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return h
}

// count is how many lines of the log hold all words.
func (s *stage) count(words ...string) int {
	n := 0
	for line := range strings.Lines(s.log.String()) {
		if !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(line, w) }) {
			n++
		}
	}
	return n
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

type safeBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
