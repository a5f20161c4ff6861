package client_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/hybrid-pleg/hybrid-pleg/internal/daemontest"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/client"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/merge"
)

func TestCalls(t *testing.T) {
	path := daemontest.SocketPath(t)
	b := daemontest.New(t, merge.Options{})
	const pods = 1234 // more than two pages
	for i := range pods {
		b.Tell(event.ContainerStarted, fmt.Sprintf("p%04d", i), fmt.Sprint("c", i))
	}
	stop := daemontest.Start(t, path, b)
	c := newClient(t, path)

	s, err := c.List(t.Context(), client.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Pods) != pods || s.Token != b.Token() {
		t.Fatalf("%d pods at %s, want %d at %s", len(s.Pods), s.Token, pods, b.Token())
	}
	for i, p := range s.Pods {
		if want := fmt.Sprintf("p%04d", i); p.Pod.UID != want || len(p.Containers) != 1 {
			t.Fatalf("pod %d is %+v", i, p)
		}
	}
	s, err = c.List(t.Context(), client.Filter{PodNames: []string{"name-p0007"}})
	if err != nil || len(s.Pods) != 1 || s.Pods[0].Pod.UID != "p0007" {
		t.Errorf("by name: %+v, %v", s, err)
	}
	if _, err := c.List(t.Context(), client.Filter{LabelSelector: "!!"}); !errors.Is(err, client.ErrFilter) {
		t.Errorf("with a bad selector: %v", err)
	}

	p, token, err := c.Get(t.Context(), "p0003")
	if err != nil || p.Pod.Name != "name-p0003" || token != b.Token() {
		t.Errorf("get: %+v, %s, %v", p, token, err)
	}
	if _, _, err := c.Get(t.Context(), "p9"); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("get what is not there: %v", err)
	}
	if _, _, err := c.Get(t.Context(), ""); !errors.Is(err, client.ErrRefused) {
		t.Errorf("get without a UID: %v", err)
	}

	b.SetHealthy(errors.New("no runtime"))
	info, err := c.Info(t.Context())
	if err != nil || info.Version != "test" || info.Epoch != b.Token().Epoch || info.Unhealthy != "no runtime" ||
		info.Runtime.Endpoint != "unix:///runtime.sock" || len(info.Sources) != 1 || !info.Sources[0].Up || info.StartedAt.IsZero() {
		t.Errorf("info: %+v, %v", info, err)
	}

	stop()
	if _, err := c.Info(t.Context()); !errors.Is(err, client.ErrUnavailable) {
		t.Errorf("info of a daemon that is down: %v", err)
	}
	// It connects again by itself.
	daemontest.Start(t, path, b)
	until(t, "it is back", func() bool {
		_, err := c.Info(t.Context())
		return err == nil
	})
}
