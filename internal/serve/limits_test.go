package serve

import (
	"errors"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	hybridplegv1 "github.com/hybrid-pleg/hybrid-pleg/api/hybridpleg/v1"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/merge"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

func TestLimitsComplete(t *testing.T) {
	got, err := Limits{}.Complete()
	want := Limits{DefaultWatchers, DefaultWatcherBuffer, DefaultMessageSize, DefaultRequestsPerSecond}
	if got != want || err != nil {
		t.Errorf("%+v, %v", got, err)
	}
	for says, l := range map[string]Limits{
		"Watchers: give 1 to 100000, not -1":              {Watchers: -1},
		"Watchers: give 1 to 100000, not 100001":          {Watchers: 100_001},
		"WatcherBuffer: give 4096 to 16777216, not 1":     {WatcherBuffer: 1},
		"MessageSize: give 65536 to 268435456, not 1000":  {MessageSize: 1000},
		"RequestsPerSecond: give 1 to 1000000, not 0.5":   {RequestsPerSecond: 0.5},
		"RequestsPerSecond: give 1 to 1000000, not 2e+06": {RequestsPerSecond: 2e6},
	} {
		_, err := l.Complete()
		if _, ok := errors.AsType[*LimitError](err); !ok || !errors.Is(err, ErrLimits) || err.Error() != says {
			t.Errorf("%v, want %s", err, says)
		}
	}
}

func TestMaxWatchers(t *testing.T) {
	r := start(t, newBackend(t, merge.Options{}), Options{Limits: Limits{Watchers: 2}}, nil)
	api := r.dial()
	watch := func() error {
		stream, err := api.Watch(within(t), &hybridplegv1.WatchRequest{})
		if err == nil {
			_, err = stream.Recv()
		}
		return err
	}
	if err := watch(); err != nil {
		t.Fatal(err)
	}
	c := r.http()
	second := open(t, c, "/v1/events")
	if second.status != http.StatusOK {
		t.Fatal(second.status)
	}
	wants(t, watch(), codes.ResourceExhausted, "2 watches are open, which is as many as --max-watchers allows")
	third := open(t, c, "/v1/events")
	if third.status != http.StatusTooManyRequests || third.header.Get("Retry-After") != "1" {
		t.Errorf("%d %v", third.status, third.header)
	}
	if n := r.turnedAway(limitWatchers); n != 2 {
		t.Errorf("%d were counted", n)
	}
	// One that leaves makes room.
	second.close()
	eventually(t, "a free place", func() bool { return r.watches.count() == 1 })
	if err := watch(); err != nil {
		t.Error(err)
	}
}

func TestMaxRequestsPerSecond(t *testing.T) {
	r := start(t, newBackend(t, merge.Options{}), Options{Limits: Limits{RequestsPerSecond: 2}}, nil)
	api, c := r.dial(), r.http()
	var err error
	for tries := 0; err == nil && tries < 1000; tries++ {
		_, err = api.GetInfo(within(t), &hybridplegv1.GetInfoRequest{})
	}
	wants(t, err, codes.ResourceExhausted, "more than 2 requests a second, which is what --max-requests-per-second allows")
	var retry *errdetails.RetryInfo
	for _, d := range status.Convert(err).Details() {
		retry, _ = d.(*errdetails.RetryInfo)
	}
	if wait := retry.GetRetryDelay().AsDuration(); wait <= 0 || wait > time.Second {
		t.Errorf("retry after %v", retry)
	}
	code := 200
	for tries := 0; code == 200 && tries < 1000; tries++ {
		resp := open(t, c, "/v1/info")
		resp.close()
		code = resp.status
		if code != 200 && resp.header.Get("Retry-After") != "1" {
			t.Errorf("Retry-After: %q", resp.header.Get("Retry-After"))
		}
	}
	if code != http.StatusTooManyRequests {
		t.Errorf("status %d", code)
	}
	// Probes of health are not in the bucket.
	for range 10 {
		if _, err := healthpb.NewHealthClient(r.conn()).Check(within(t), &healthpb.HealthCheckRequest{}); err != nil {
			t.Error(err)
		}
	}
	if n := r.turnedAway(limitRequests); n != 2 {
		t.Errorf("%d were counted", n)
	}
}

func TestMaxConnections(t *testing.T) {
	r := start(t, newBackend(t, merge.Options{}), Options{Limits: Limits{Watchers: 1}}, func(s *Server) {
		s.helloTimeout = patience // the connections say nothing
	})
	for range 1 + spareConnections {
		r.plain("")
	}
	eventually(t, "the connections to be taken", func() bool { return r.connections.count() == 1+spareConnections })
	one := r.plain("")
	if err := one.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := one.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("one too many: %v", err)
	}
	if n := r.turnedAway(limitConnections); n != 1 {
		t.Errorf("%d were counted", n)
	}
}

func TestMetricsRegistered(t *testing.T) {
	registry := prometheus.NewRegistry()
	r := start(t, newBackend(t, merge.Options{}), Options{Registerer: registry}, nil)
	if _, err := New(Options{Backend: r.backend, Registerer: registry}); err == nil {
		t.Error("two servers share a registry")
	}
	api := r.dial()
	_, _ = api.GetPod(within(t), &hybridplegv1.GetPodRequest{Uid: "x"})
	get(t, r.http(), "/v1/pods/x")
	get(t, r.http(), "/v1/x")
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range families {
		if f.GetName() != "hybrid_pleg_api_requests_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetValue())
			}
			got = append(got, strings.Join(labels, " "))
		}
	}
	if want := "404 GetPod http, 404 other http, NotFound GetPod grpc"; strings.Join(got, ", ") != want {
		t.Errorf("got  %q\nwant %s", got, want)
	}
	r.end()
	if families, err = registry.Gather(); err != nil || len(families) != 0 {
		t.Errorf("after the end there are %d metrics, %v", len(families), err)
	}
}
