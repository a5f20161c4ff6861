package pleg_test

import (
	"testing"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
)

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
