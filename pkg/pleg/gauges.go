package pleg

import (
	"github.com/prometheus/client_golang/prometheus"
)

// gauges are read when metrics are collected, so that none can be stale.
type gauges struct {
	lastRelist, inFlight, sourceUp, sourceDown  *prometheus.Desc
	watchers, expired, journalBytes, suppressed *prometheus.Desc
	pods, containers                            *prometheus.Desc
}

func newGauges() gauges {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(prometheus.BuildFQName(namespace, "", name), help, labels, nil)
	}
	return gauges{
		lastRelist:   desc("last_relist_timestamp_seconds", "When the last good relist of everything was begun; 0 before the first."),
		inFlight:     desc("relist_in_flight_seconds", "How long the relist of everything under way has been; shows a hang while it lasts."),
		sourceUp:     desc("trigger_source_up", "Whether a trigger source works.", "source"),
		sourceDown:   desc("trigger_source_down_info", "Why a trigger source does not work: starting, unsupported, failed.", "source", "reason"),
		watchers:     desc("watchers", "Open watchers."),
		expired:      desc("watcher_expired_total", "How often a watcher was told that events are lost to it, as it fell behind the journal or its token was too old or not known."),
		journalBytes: desc("journal_bytes", "Memory that the journal takes, about."),
		suppressed:   desc("changes_suppressed_total", "Changes not told because the law of the merge stage forbids it.", "reason"),
		pods:         desc("running_pods", "Pods with a running sandbox."),
		containers:   desc("running_containers", "Containers by the state they are listed in.", "state"),
	}
}

func (d *gauges) describe(ch chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{
		d.lastRelist, d.inFlight, d.sourceUp, d.sourceDown, d.watchers, d.expired,
		d.journalBytes, d.suppressed, d.pods, d.containers,
	} {
		ch <- desc
	}
}

func (d *gauges) collect(ch chan<- prometheus.Metric, g *Generator) {
	emit := func(desc *prometheus.Desc, kind prometheus.ValueType, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(desc, kind, v, labels...)
	}
	last := 0.0
	if at := g.engine.LastListed(); !at.IsZero() {
		last = float64(at.UnixNano()) / 1e9
	}
	emit(d.lastRelist, prometheus.GaugeValue, last)
	emit(d.inFlight, prometheus.GaugeValue, g.engine.InFlight().Seconds())
	for _, st := range g.Sources() {
		up := 0.0
		if st.Up {
			up = 1
		} else {
			emit(d.sourceDown, prometheus.GaugeValue, 1, string(st.Name), downReason(st))
		}
		emit(d.sourceUp, prometheus.GaugeValue, up, string(st.Name))
	}
	stats := g.log.Stats()
	emit(d.watchers, prometheus.GaugeValue, float64(stats.Watchers))
	emit(d.expired, prometheus.CounterValue, float64(stats.Expired))
	emit(d.journalBytes, prometheus.GaugeValue, float64(stats.JournalBytes))
	for reason, n := range stats.Suppressed {
		emit(d.suppressed, prometheus.CounterValue, float64(n), reason.String())
	}
	counts := g.engine.Store().Counts()
	emit(d.pods, prometheus.GaugeValue, float64(counts.RunningPods))
	for state, n := range counts.Containers {
		emit(d.containers, prometheus.GaugeValue, float64(n), string(state))
	}
}
