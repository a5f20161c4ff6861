package pleg

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// stateMetrics are those of the state directory. Without one they have no series.
type stateMetrics struct {
	writes         *prometheus.CounterVec
	took           prometheus.Histogram
	bytes, healthy *prometheus.Desc
}

func newStateMetrics() stateMetrics {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc(prometheus.BuildFQName(namespace, "", name), help, nil, nil)
	}
	s := stateMetrics{
		writes: prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: "state_writes_total",
			Help: "Writes of the state, by result (ok, error)."}, []string{"result"}),
		took:    prometheus.NewHistogram(seconds("state_write_duration_seconds", "How long a write of the state took, whatever came of it.")),
		bytes:   desc("state_bytes", "Size of the state file."),
		healthy: desc("state_healthy", "Whether the last write of the state was good."),
	}
	for _, result := range []string{"ok", "error"} {
		s.writes.WithLabelValues(result)
	}
	return s
}

func (s *stateMetrics) written(took time.Duration, err error) {
	result := "ok"
	if err != nil {
		result = "error"
	}
	s.writes.WithLabelValues(result).Inc()
	s.took.Observe(took.Seconds())
}

func (s *stateMetrics) describe(ch chan<- *prometheus.Desc) {
	s.writes.Describe(ch)
	s.took.Describe(ch)
	ch <- s.bytes
	ch <- s.healthy
}

func (s *stateMetrics) collect(ch chan<- prometheus.Metric, g *Generator) {
	if g.keeper == nil {
		return
	}
	s.writes.Collect(ch)
	s.took.Collect(ch)
	healthy := 1.0
	if g.keeper.Problem() != "" {
		healthy = 0
	}
	ch <- prometheus.MustNewConstMetric(s.bytes, prometheus.GaugeValue, float64(g.keeper.Size()))
	ch <- prometheus.MustNewConstMetric(s.healthy, prometheus.GaugeValue, healthy)
}
