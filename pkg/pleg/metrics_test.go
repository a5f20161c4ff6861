package pleg_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/pleg"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
)

// described are the metrics that a generator has, each with its labels, whether it
// has a series yet or not.
type described struct {
	prometheus.Registerer
	names map[string][]string
}

var desc = regexp.MustCompile(`fqName: "([^"]+)".*variableLabels: \{([^}]*)\}`)

func (d *described) Register(c prometheus.Collector) error {
	ch := make(chan *prometheus.Desc)
	go func() {
		c.Describe(ch)
		close(ch)
	}()
	for one := range ch {
		m := desc.FindStringSubmatch(one.String())
		d.names[m[1]] = slices.Sorted(strings.SplitSeq(m[2], ","))
	}
	return nil
}

func describedMetrics(t *testing.T) map[string][]string {
	d := &described{names: map[string][]string{}}
	if _, err := pleg.New(pleg.Options{Endpoint: "unix:///nowhere/cri.sock", Registerer: d}); err != nil {
		t.Fatal(err)
	}
	if len(d.names) < 20 {
		t.Fatalf("there are only %d metrics", len(d.names))
	}
	return d.names
}

// row is a line of the table in docs/metrics.md: name, type, labels, meaning.
var row = regexp.MustCompile("(?m)^\\| `(hybrid_pleg_[a-z_]+)` \\| (gauge|counter|histogram) \\| ([^|]*) \\| [^|]+ \\|$")

// TestMetricsAreDocumented compares docs/metrics.md with what there is.
func TestMetricsAreDocumented(t *testing.T) {
	data, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string][]string{}
	for _, m := range row.FindAllStringSubmatch(string(data), -1) {
		if _, twice := documented[m[1]]; twice {
			t.Errorf("%s is documented twice", m[1])
		}
		labels := strings.ReplaceAll(strings.ReplaceAll(m[3], "`", ""), " ", "")
		documented[m[1]] = slices.Sorted(strings.SplitSeq(labels, ","))
	}
	exist := describedMetrics(t)
	for name, labels := range exist {
		if got, ok := documented[name]; !ok {
			t.Errorf("%s is not documented", name)
		} else if !slices.Equal(got, labels) {
			t.Errorf("%s is documented with the labels %q and has %q", name, got, labels)
		}
	}
	for name := range documented {
		if _, ok := exist[name]; !ok {
			t.Errorf("%s is documented and does not exist", name)
		}
	}
	// What is named anywhere else in the text exists, too.
	for _, name := range regexp.MustCompile(`hybrid_pleg_[a-z_]+[a-z]`).FindAllString(string(data), -1) {
		name = strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_count"), "_sum")
		if _, ok := exist[name]; !ok {
			t.Errorf("%s is named and does not exist", name)
		}
	}
}

func TestMetricsAreSound(t *testing.T) {
	s := newStage(t)
	s.run(nil)
	sandbox, config := s.pod("p")
	id := s.container(sandbox, config, "main", 0, "exit", "0")
	s.await(id, event.ContainerDied)
	s.relisted()

	families, err := s.reg.Gather()
	check(t, err)
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	check(t, err)
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	kinds := map[string]dto.MetricType{}
	for _, f := range families {
		kinds[f.GetName()] = f.GetType()
		if f.GetType() != dto.MetricType_HISTOGRAM {
			continue
		}
		for _, m := range f.Metric {
			h := m.GetHistogram()
			if len(h.Bucket) == 0 || h.Schema == nil {
				t.Errorf("%s lacks classic or native buckets: %v", f.GetName(), h)
			}
			if h.GetSampleSum() < 0 {
				t.Errorf("%s adds up to %v", f.GetName(), h.GetSampleSum())
			}
		}
	}
	for name, want := range map[string]dto.MetricType{
		"relist_duration_seconds":       dto.MetricType_HISTOGRAM,
		"relist_interval_seconds":       dto.MetricType_HISTOGRAM,
		"relists_total":                 dto.MetricType_COUNTER,
		"last_relist_timestamp_seconds": dto.MetricType_GAUGE,
		"cri_calls_total":               dto.MetricType_COUNTER,
		"signals_total":                 dto.MetricType_COUNTER,
		"signals_settled_total":         dto.MetricType_COUNTER,
		"settle_duration_seconds":       dto.MetricType_HISTOGRAM,
		"settle_attempts":               dto.MetricType_HISTOGRAM,
		"trigger_source_up":             dto.MetricType_GAUGE,
		"events_total":                  dto.MetricType_COUNTER,
		"detection_latency_seconds":     dto.MetricType_HISTOGRAM,
		"missed_containers_total":       dto.MetricType_COUNTER,
		"watchers":                      dto.MetricType_GAUGE,
		"watcher_expired_total":         dto.MetricType_COUNTER,
		"journal_bytes":                 dto.MetricType_GAUGE,
		"relist_period_seconds":         dto.MetricType_GAUGE,
		"running_pods":                  dto.MetricType_GAUGE,
		"running_containers":            dto.MetricType_GAUGE,
	} {
		if got, ok := kinds["hybrid_pleg_"+name]; !ok || got != want {
			t.Errorf("%s is %v (there: %v), want %v", name, got, ok, want)
		}
	}
	if s.metric("running_pods") != 1 || s.metric("running_containers", "exited") != 1 || s.metric("running_containers", "running") != 0 {
		t.Error("the gauges are wrong")
	}
	for _, method := range []string{"ListPodSandbox", "ListContainers", "ContainerStatus"} {
		if s.metric("cri_calls_total", method) == 0 {
			t.Errorf("no call of %s was counted", method)
		}
	}
	check(t, s.rt.RemovePod(t.Context(), sandbox))
	s.await(sandbox, event.SandboxRemoved)
	if s.metric("running_pods") != 0 || s.metric("running_containers") != 0 {
		t.Error("the gauges are not zero when nothing is left")
	}
}
