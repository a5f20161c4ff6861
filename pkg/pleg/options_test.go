package pleg_test

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hybrid-pleg/hybrid-pleg/internal/embedded"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/pleg"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/relist"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/trigger"
	"github.com/prometheus/client_golang/prometheus"
)

func TestOptions(t *testing.T) {
	rt := embedded.New(embedded.Options{})
	defer rt.Close()
	named := func(name trigger.SourceName) trigger.Source {
		return &source{name: name, run: func(context.Context, trigger.Sink) error { return nil }}
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	const here = "unix:///nowhere/cri.sock"
	tests := []struct {
		name string
		opts pleg.Options
		is   error  // nil: they are good
		says string // what the error says
	}{
		{"the least", pleg.Options{Endpoint: here}, nil, ""},
		{"a runtime", pleg.Options{Runtime: rt.Client()}, nil, ""},
		{"no triggers", pleg.Options{Endpoint: here, Triggers: noTriggers}, nil, ""},
		{"a source for a trigger", pleg.Options{Endpoint: here, Sources: []trigger.Source{named("ebpf")}}, nil, ""},
		{"nothing", pleg.Options{}, pleg.ErrOptions, "Endpoint or Runtime is required"},
		{"both", pleg.Options{Endpoint: here, Runtime: rt.Client()}, pleg.ErrOptions, "exclude each other"},
		{"period", pleg.Options{Endpoint: here, RelistPeriod: -1}, pleg.ErrOptions, "relist period must be above 0"},
		{"degraded period", pleg.Options{Endpoint: here, RelistPeriodDegraded: -1}, pleg.ErrOptions, "relist period must be above 0"},
		{"rate", pleg.Options{Endpoint: here, EarlyRelistRate: -1}, pleg.ErrOptions, "EarlyRelistRate"},
		{"no rate", pleg.Options{Endpoint: here, EarlyRelistRate: math.NaN()}, pleg.ErrOptions, "EarlyRelistRate"},
		{"deadline", pleg.Options{Endpoint: here, StatusDeadline: -1}, pleg.ErrOptions, "StatusDeadline"},
		{"trigger", pleg.Options{Endpoint: here, Triggers: []trigger.SourceName{"smoke"}}, pleg.ErrOptions, `unknown trigger "smoke"; there are cgroup, ebpf, cri`},
		{"trigger twice", pleg.Options{Endpoint: here, Triggers: []trigger.SourceName{"cri", "cri"}}, pleg.ErrOptions, `"cri" is named twice`},
		{"no source", pleg.Options{Endpoint: here, Sources: []trigger.Source{nil}}, pleg.ErrOptions, "source 0"},
		{"nameless source", pleg.Options{Endpoint: here, Sources: []trigger.Source{named("")}}, pleg.ErrOptions, "source 0"},
		{"ill-named source", pleg.Options{Endpoint: here, Sources: []trigger.Source{named("\xff")}}, pleg.ErrOptions, "source 0"},
		{"source twice", pleg.Options{Endpoint: here, Sources: []trigger.Source{named("a"), named("a")}}, pleg.ErrOptions, `two sources have the name "a"`},
		{"epoch", pleg.Options{Endpoint: here, Epoch: "no spaces"}, pleg.ErrOptions, "epoch"},
		{"journal", pleg.Options{Endpoint: here, JournalEvents: -1}, pleg.ErrOptions, "JournalEvents"},
		{"endpoint", pleg.Options{Endpoint: "tcp://127.0.0.1:1"}, relist.ErrNotSocket, "unix:///path"},
		{"file", pleg.Options{Endpoint: "unix://" + file}, relist.ErrNotSocket, "regular file"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			g, err := pleg.New(test.opts)
			switch {
			case test.is == nil && (err != nil || g == nil):
				t.Errorf("refused: %v", err)
			case test.is != nil && (!errors.Is(err, test.is) || !strings.Contains(err.Error(), test.says)):
				t.Errorf("the error is %v, want one that says %q", err, test.says)
			}
		})
	}
}

// TestTwoGenerators can't share a registry, and say so.
func TestTwoGenerators(t *testing.T) {
	opts := pleg.Options{Endpoint: "unix:///nowhere/cri.sock", Registerer: prometheus.NewRegistry()}
	if _, err := pleg.New(opts); err != nil {
		t.Fatal(err)
	}
	if _, err := pleg.New(opts); err == nil || !strings.Contains(err.Error(), "register metrics") {
		t.Errorf("the second: %v", err)
	}
}

// TestBeforeRun asks a generator that does not run yet.
func TestBeforeRun(t *testing.T) {
	reg := prometheus.NewRegistry()
	g, err := pleg.New(pleg.Options{Endpoint: "unix:///nowhere/cri.sock", Registerer: reg})
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Healthy(); !errors.Is(err, relist.ErrNotListed) {
		t.Errorf("healthy: %v", err)
	}
	if got := g.Sources(); len(got) != 3 || got[0].Name != trigger.SourceCgroup || got[0].Up || got[0].Err != nil {
		t.Errorf("sources: %+v", got)
	}
	if err := g.Connect(t.Context()); !errors.Is(err, relist.ErrUnavailable) {
		t.Errorf("connect: %v", err)
	}
	if _, err := reg.Gather(); err != nil {
		t.Errorf("metrics: %v", err)
	}
}
