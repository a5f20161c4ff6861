package pleg

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/relist"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/trigger"
	"github.com/prometheus/client_golang/prometheus"
)

const namespace = "hybrid_pleg"

// metrics holds the counters and histograms, and reads the gauges off the
// generator when it is collected.
type metrics struct {
	trigger.NopObserver
	g       *Generator
	sources []trigger.SourceName

	relistDuration *prometheus.HistogramVec
	relistInterval prometheus.Histogram
	relists        *prometheus.CounterVec
	anomalies      *prometheus.CounterVec
	calls          *prometheus.CounterVec
	signals        *prometheus.CounterVec
	settled        *prometheus.CounterVec
	settleDuration *prometheus.HistogramVec
	settleAttempts *prometheus.HistogramVec
	unannounced    prometheus.Counter
	missed         prometheus.Counter
	events         *prometheus.CounterVec
	latency        *prometheus.HistogramVec
	period         prometheus.Gauge
	all            []prometheus.Collector
	gauges         gauges
	state          stateMetrics

	missedTold atomic.Bool

	mu        sync.Mutex
	lastBegun time.Time
}

// seconds makes a histogram of durations from 0.1 ms to 10 s, with classic
// buckets for every scraper and native ones for those that take them.
func seconds(name, help string) prometheus.HistogramOpts {
	return histogram(name, help, []float64{
		.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10,
	})
}

func histogram(name, help string, buckets []float64) prometheus.HistogramOpts {
	return prometheus.HistogramOpts{
		Namespace: namespace, Name: name, Help: help, Buckets: buckets,
		NativeHistogramBucketFactor:     1.1,
		NativeHistogramMaxBucketNumber:  100,
		NativeHistogramMinResetDuration: time.Hour,
	}
}

func newMetrics(g *Generator) *metrics {
	m := &metrics{g: g, gauges: newGauges(), state: newStateMetrics()}
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help})
		m.all = append(m.all, c)
		return c
	}
	counterVec := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels)
		m.all = append(m.all, c)
		return c
	}
	histogramVec := func(opts prometheus.HistogramOpts, label string) *prometheus.HistogramVec {
		h := prometheus.NewHistogramVec(opts, []string{label})
		m.all = append(m.all, h)
		return h
	}
	m.relistDuration = histogramVec(seconds("relist_duration_seconds", "How long listing took."), "scope")
	m.relistInterval = prometheus.NewHistogram(seconds("relist_interval_seconds", "Time between the starts of relists of everything."))
	m.relists = counterVec("relists_total", "Relists, by scope (pod, all), reason and result.", "scope", "reason", "result")
	m.anomalies = counterVec("list_anomalies_total", "Things in a listing that should not be there, by kind.", "kind")
	m.calls = counterVec("cri_calls_total", "Calls of the runtime, by method of the CRI; a stream is one.", "method")
	m.signals = counterVec("signals_total", "Signals received, by source and kind.", "source", "kind")
	m.settled = counterVec("signals_settled_total", "What became of what signals announced.", "source", "kind", "outcome")
	m.settleDuration = histogramVec(seconds("settle_duration_seconds", "Time from a signal to the look that found what it announced."), "kind")
	m.settleAttempts = histogramVec(histogram("settle_attempts", "Looks taken until what a signal announced was found.",
		[]float64{1, 2, 3, 4, 6, 8, 12, 16}), "kind")
	m.unannounced = counter("unannounced_changes_total", "Starts and exits that a periodic relist found and no signal had announced.")
	m.missed = counter("missed_containers_total", "Containers that the kernel saw run and no listing ever showed.")
	m.events = counterVec("events_total", "Events told, by type and kind of relist.", "type", "found_by")
	m.latency = histogramVec(seconds("detection_latency_seconds", "Time from the change, by the runtime's or else the kernel's word, to its event."), "type")
	m.period = prometheus.NewGauge(prometheus.GaugeOpts{Namespace: namespace, Name: "relist_period_seconds",
		Help: "The gap kept between relists of everything now."})
	m.Period(g.opts.RelistPeriod)
	m.all = append(m.all, m.relistInterval, m.period)
	// What may be asked for with rate() or an alert is there from the start.
	for _, typ := range event.Types() {
		for _, by := range []event.FoundBy{event.FoundEarly, event.FoundPeriodic, event.FoundStartup} {
			m.events.WithLabelValues(string(typ), string(by))
		}
	}
	m.sources = slices.Clone(g.opts.Triggers)
	for _, src := range g.opts.Sources {
		if !slices.Contains(m.sources, src.Name()) {
			m.sources = append(m.sources, src.Name())
		}
	}
	for _, name := range m.sources {
		for _, kind := range []trigger.Kind{trigger.KindStarted, trigger.KindExited, trigger.KindLost} {
			m.signals.WithLabelValues(string(name), string(kind))
		}
	}
	return m
}

// Describe implements [prometheus.Collector].
func (m *metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, c := range m.all {
		c.Describe(ch)
	}
	m.gauges.describe(ch)
	m.state.describe(ch)
}

// Collect implements [prometheus.Collector].
func (m *metrics) Collect(ch chan<- prometheus.Metric) {
	for _, c := range m.all {
		c.Collect(ch)
	}
	m.gauges.collect(ch, m.g)
	m.state.collect(ch, m.g)
}

func (m *metrics) relist(req relist.Request, res relist.Result) {
	scope := "pod"
	if req.PodUID == "" {
		scope = "all"
		m.mu.Lock()
		if !m.lastBegun.IsZero() {
			m.relistInterval.Observe(res.At.Sub(m.lastBegun).Seconds())
		}
		m.lastBegun = res.At
		m.mu.Unlock()
	}
	m.relists.WithLabelValues(scope, req.Reason, res.Outcome()).Inc()
	m.relistDuration.WithLabelValues(scope).Observe(res.Took.Seconds())
}

func (m *metrics) anomaly(a relist.Anomaly) { m.anomalies.WithLabelValues(string(a)).Inc() }

// Signal implements [trigger.Observer].
func (m *metrics) Signal(s trigger.Signal) {
	m.signals.WithLabelValues(m.sourceLabel(s.Source), kindLabel(s.Kind)).Inc()
}

// Settled implements [trigger.Observer].
func (m *metrics) Settled(source trigger.SourceName, kind trigger.Kind, outcome trigger.Outcome, after time.Duration, looks int) {
	k := kindLabel(kind)
	m.settled.WithLabelValues(m.sourceLabel(source), k, string(outcome)).Inc()
	if outcome == trigger.OutcomeSettled {
		m.settleDuration.WithLabelValues(k).Observe(after.Seconds())
		m.settleAttempts.WithLabelValues(k).Observe(float64(looks))
	}
}

// other is the label of what no source here is named, or no kind of signal is: a
// program's own source may send anything, and a label must neither be unbounded
// nor be no UTF-8.
const other = "other"

func (m *metrics) sourceLabel(name trigger.SourceName) string {
	// The names are set when the generator is made, and stay.
	if slices.Contains(m.sources, name) {
		return string(name)
	}
	return other
}

func kindLabel(kind trigger.Kind) string {
	switch kind {
	case trigger.KindCreated, trigger.KindStarted, trigger.KindExited, trigger.KindRemoved, trigger.KindChanged,
		trigger.KindCgroupAdded, trigger.KindCgroupRemoved, trigger.KindLost:
		return string(kind)
	}
	return other
}

// Missed implements [trigger.Observer].
func (m *metrics) Missed(id string) {
	m.missed.Inc()
	level := slog.LevelDebug
	if !m.missedTold.Swap(true) {
		level = slog.LevelWarn
	}
	m.g.opts.Log.Log(context.Background(), level,
		"a container ran that the runtime never listed: its life was too short; further ones are logged at debug level", "container", id)
}

// Unannounced implements [trigger.Observer].
func (m *metrics) Unannounced(n int) { m.unannounced.Add(float64(n)) }

// Period implements [trigger.Observer].
func (m *metrics) Period(d time.Duration) {
	m.period.Set(d.Seconds())
	m.g.period.Store(int64(d))
}

func (m *metrics) event(e *event.Event) {
	m.events.WithLabelValues(string(e.Type), string(e.Detection.FoundBy)).Inc()
	if e.Detection.FoundBy == event.FoundStartup || e.Inferred {
		return // it may have happened days ago
	}
	if at := changedAt(e); !at.IsZero() {
		// The runtime's clock may have been stepped since.
		m.latency.WithLabelValues(string(e.Type)).Observe(max(0, e.Time.Sub(at).Seconds()))
	}
}

// changedAt is when a change happened, by the runtime's word or else the signal's;
// zero when neither tells.
func changedAt(e *event.Event) time.Time {
	if e.Status != nil {
		switch {
		case e.Type == event.ContainerStarted && !e.Status.StartedAt.IsZero():
			return e.Status.StartedAt
		case e.Type == event.ContainerDied && !e.Status.FinishedAt.IsZero():
			return e.Status.FinishedAt
		}
	}
	return e.Detection.SignalAt
}

// downReason is a word for why a source is down, fit for a label.
func downReason(st trigger.SourceStatus) string {
	switch {
	case st.Err == nil:
		return "starting"
	case errors.Is(st.Err, trigger.ErrUnsupported):
		return "unsupported"
	default:
		return "failed"
	}
}
