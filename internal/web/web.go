// Package web serves metrics and health over HTTP.
package web

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/trigger"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Generator is what is reported on.
type Generator interface {
	Healthy() error
	Sources() []trigger.SourceStatus
}

// Handler serves /metrics, /healthz and /readyz.
//
// /healthz answers 200 while the generator is healthy, and 503 with the reason
// otherwise. So that a runtime that takes its time to come up is no reason for a
// restart, before the first listing it answers 200 for the grace
// period. /readyz answers 200 from the first good listing on, with how each
// trigger is doing.
func Handler(g Generator, metrics prometheus.Gatherer, grace time.Duration) http.Handler {
	began := time.Now()
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{
		EnableOpenMetrics: true,
		// Scrapers that don't go away must not pile up.
		MaxRequestsInFlight: 8,
	}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		err := g.Healthy()
		if err != nil && time.Since(began) < grace {
			err = nil
		}
		answer(w, err, nil)
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, g.Healthy(), g.Sources())
	})
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = w.Write([]byte("hybrid-pleg\n\n/metrics\n/healthz\n/readyz\n"))
	})
	return mux
}

// report is the body of an answer.
type report struct {
	Healthy bool           `json:"healthy"`
	Reason  string         `json:"reason,omitempty"`
	Sources []sourceReport `json:"sources,omitempty"`
}

type sourceReport struct {
	Name   trigger.SourceName `json:"name"`
	Up     bool               `json:"up"`
	Reason string             `json:"reason,omitempty"`
}

func answer(w http.ResponseWriter, err error, sources []trigger.SourceStatus) {
	body := report{Healthy: err == nil}
	code := http.StatusOK
	if err != nil {
		code, body.Reason = http.StatusServiceUnavailable, err.Error()
	}
	for _, st := range sources {
		s := sourceReport{Name: st.Name, Up: st.Up}
		switch {
		case st.Err != nil:
			s.Reason = st.Err.Error()
		case !st.Up:
			s.Reason = "it has not come up yet"
		}
		body.Sources = append(body.Sources, s)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	_ = enc.Encode(body)
}
