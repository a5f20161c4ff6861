package web

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/trigger"
	"github.com/prometheus/client_golang/prometheus"
)

type fake struct {
	err     error
	sources []trigger.SourceStatus
}

func (f *fake) Healthy() error                  { return f.err }
func (f *fake) Sources() []trigger.SourceStatus { return f.sources }

func ask(h http.Handler, method, path string, header ...string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	r := httptest.NewRequest(method, path, nil)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	h.ServeHTTP(w, r)
	return w
}

func TestHealth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &fake{err: errors.New("not listed yet")}
		h := Handler(g, prometheus.NewRegistry(), time.Minute)
		want := func(path string, code int, reason string) {
			t.Helper()
			w := ask(h, "GET", path)
			var body report
			if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil {
				t.Fatalf("%s: %v: %s", path, err, w.Body)
			}
			if w.Code != code || body.Reason != reason || body.Healthy != (code == 200) {
				t.Errorf("%s: %d %+v, want %d %q", path, w.Code, body, code, reason)
			}
		}
		// While the runtime has not come up, a restart would not help.
		want("/healthz", 200, "")
		want("/readyz", 503, "not listed yet")
		time.Sleep(2 * time.Minute)
		want("/healthz", 503, "not listed yet")
		g.err = nil
		want("/healthz", 200, "")
		want("/readyz", 200, "")
		g.err = errors.New("too old")
		want("/healthz", 503, "too old")
		want("/readyz", 503, "too old")
	})
}

func TestReadyTellsOfSources(t *testing.T) {
	g := &fake{sources: []trigger.SourceStatus{
		{Name: "cgroup", Up: true},
		{Name: "ebpf", Err: errors.New("no \"BTF\"\nhere")},
		{Name: "cri"},
	}}
	w := ask(Handler(g, prometheus.NewRegistry(), 0), "GET", "/readyz")
	want := `{
  "healthy": true,
  "sources": [
    {
      "name": "cgroup",
      "up": true
    },
    {
      "name": "ebpf",
      "up": false,
      "reason": "no \"BTF\"\nhere"
    },
    {
      "name": "cri",
      "up": false,
      "reason": "it has not come up yet"
    }
  ]
}
`
	if got := w.Body.String(); got != want || w.Code != 200 {
		t.Errorf("%d %s", w.Code, got)
	}
}

func TestPages(t *testing.T) {
	reg := prometheus.NewRegistry()
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: "things_total", Help: "Things."})
	reg.MustRegister(c)
	h := Handler(&fake{}, reg, 0)
	tests := []struct {
		method, path string
		code         int
		says         string
	}{
		{"GET", "/metrics", 200, "things_total 0\n"},
		{"HEAD", "/metrics", 200, ""},
		{"GET", "/", 200, "/metrics"},
		{"GET", "/nothing", 404, ""},
		{"GET", "/metrics/", 404, ""},
		{"POST", "/metrics", 405, ""},
		{"DELETE", "/healthz", 405, ""},
	}
	for _, test := range tests {
		w := ask(h, test.method, test.path)
		if body, _ := io.ReadAll(w.Body); w.Code != test.code || !strings.Contains(string(body), test.says) {
			t.Errorf("%s %s: %d %s", test.method, test.path, w.Code, body)
		}
	}
	w := ask(h, "GET", "/metrics", "Accept", "application/openmetrics-text")
	if got := w.Header().Get("Content-Type"); !strings.HasPrefix(got, "application/openmetrics-text") {
		t.Errorf("OpenMetrics was asked for and %s given", got)
	}
}
