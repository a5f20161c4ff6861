package view

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/hybrid-pleg/hybrid-pleg/internal/daemontest"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/merge"
)

func twoPods(t *testing.T) (path string, b *daemontest.Backend) {
	path = daemontest.SocketPath(t)
	b = daemontest.New(t, merge.Options{Epoch: "e"})
	b.Tell(event.SandboxStarted, "p1", "s1")
	b.Tell(event.ContainerStarted, "p1", "c1")
	b.Tell(event.SandboxStarted, "p2", "s2")
	daemontest.Start(t, path, b)
	return path, b
}

func TestPods(t *testing.T) {
	path, b := twoPods(t)
	for format, want := range map[string][]string{
		"table":  {`NAMESPACE  POD      STATE    CONTAINERS  RESTARTS  AGE`, `ns         name-p1  running  1/1         0         -`, `ns         name-p2  running  0/0         0         -`},
		"ndjson": {`\{"pod":\{"uid":"p1".*`, `\{"pod":\{"uid":"p2".*`},
	} {
		opts, r := options(t, path, format)
		if err := Pods(t.Context(), PodsOptions{Options: opts}); err != nil {
			t.Fatal(err)
		}
		read(t, r).expect(want...)
	}

	opts, r := options(t, path, "json")
	opts.PodNames = []string{"name-p2"}
	b.SetHealthy(errors.New("no runtime"))
	if err := Pods(t.Context(), PodsOptions{Options: opts}); err != nil {
		t.Fatal(err)
	}
	var got page
	if err := json.NewDecoder(r).Decode(&got); err != nil || len(got.Pods) != 1 || got.Pods[0].Pod.UID != "p2" || got.Token != "e-3" {
		t.Errorf("%+v, %v", got, err)
	}
	if errs := errFile(t, opts); !strings.Contains(errs, "may not be all: no runtime") {
		t.Errorf("of a daemon that is not healthy it says %q", errs)
	}

	opts, r = options(t, path, "json")
	opts.Namespaces = []string{"none"}
	if err := Pods(t.Context(), PodsOptions{Options: opts}); err != nil {
		t.Fatal(err)
	}
	opts.Stdout.Close()
	if err := json.NewDecoder(r).Decode(&got); err != nil || got.Pods == nil || len(got.Pods) != 0 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestPodsFollow(t *testing.T) {
	path, b := twoPods(t)
	opts, r := options(t, path, "table")
	end := begin(t, func(ctx context.Context) error { return Pods(ctx, PodsOptions{Options: opts, Follow: true}) })
	out := read(t, r)
	out.expect(`NAMESPACE .*`, `ns +name-p1 +running +1/1 .*`, `ns +name-p2 +running +0/0 .*`)
	b.Tell(event.ContainerStarted, "p2", "c2")
	out.expect(`ns +name-p2 +running +1/1 .*`)
	b.Tell(event.SandboxDied, "p1", "s1")
	out.expect(`ns +name-p1 +exited +1/1 .*`)
	b.Tell(event.SandboxRemoved, "p1", "s1")
	out.expect(`ns +name-p1 +unknown +1/1 .*`)
	b.Tell(event.ContainerRemoved, "p1", "c1")
	out.expect(`ns +name-p1 +gone +0/0 .*`)
	if err := end(); err != nil {
		t.Error(err)
	}
}
