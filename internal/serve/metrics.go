package serve

import "github.com/prometheus/client_golang/prometheus"

// The forms of a watch, as a label.
const (
	formGRPC   = "grpc"
	formNDJSON = "ndjson"
	formSSE    = "sse"
)

// The limits that can turn a client away, as a label.
const (
	limitWatchers    = "watchers"
	limitRequests    = "requests"
	limitMessageSize = "message_size"
	limitConnections = "connections"
)

// Why a watch expires, as a label.
const (
	expiredSlow  = "slow"  // the client does not read as fast as things happen
	expiredToken = "token" // it came with one that is too old or not known
)

// The protocols, as a label.
const (
	protocolGRPC = "grpc"
	protocolHTTP = "http"
)

type metrics struct {
	watchers    *prometheus.GaugeVec
	connections prometheus.Gauge
	requests    *prometheus.CounterVec
	rejected    *prometheus.CounterVec
	expired     *prometheus.CounterVec
}

func newMetrics() *metrics {
	const namespace, subsystem = "hybrid_pleg", "api"
	m := &metrics{
		watchers: prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: namespace, Subsystem: subsystem,
			Name: "watchers", Help: "Open watches of clients."}, []string{"form"}),
		connections: prometheus.NewGauge(prometheus.GaugeOpts{Namespace: namespace, Subsystem: subsystem,
			Name: "connections", Help: "Open connections of clients."}),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Subsystem: subsystem,
			Name: "requests_total", Help: "Requests that have ended, watches included."}, []string{"protocol", "method", "code"}),
		rejected: prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Subsystem: subsystem,
			Name: "rejected_total", Help: "What was turned away because of a limit."}, []string{"limit"}),
		expired: prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Subsystem: subsystem,
			Name: "expired_total", Help: "How often a client was told that events are lost to it, as it was too slow or came with a token that is too old or not known."},
			[]string{"reason"}),
	}
	// What may be asked for with rate() or an alert is there from the start.
	for _, form := range []string{formGRPC, formNDJSON, formSSE} {
		m.watchers.WithLabelValues(form)
	}
	for _, limit := range []string{limitWatchers, limitRequests, limitMessageSize, limitConnections} {
		m.rejected.WithLabelValues(limit)
	}
	for _, reason := range []string{expiredSlow, expiredToken} {
		m.expired.WithLabelValues(reason)
	}
	return m
}

// Describe implements [prometheus.Collector].
func (m *metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, c := range m.all() {
		c.Describe(ch)
	}
}

// Collect implements [prometheus.Collector].
func (m *metrics) Collect(ch chan<- prometheus.Metric) {
	for _, c := range m.all() {
		c.Collect(ch)
	}
}

func (m *metrics) all() []prometheus.Collector {
	return []prometheus.Collector{m.watchers, m.connections, m.requests, m.rejected, m.expired}
}
