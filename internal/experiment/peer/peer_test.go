package peer

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/internal/embedded"
	"github.com/hybrid-pleg/hybrid-pleg/internal/eventtest"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	"go.uber.org/goleak"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestPeers has each tell the life of a container, and compares.
func TestPeers(t *testing.T) {
	for name, generate := range map[string]func(context.Context, Options) error{"events": Events, "poll": Poll} {
		t.Run(name, func(t *testing.T) {
			rt := embedded.New(embedded.Options{Lag: embedded.NoLag()})
			defer rt.Close()
			server, err := embedded.Serve(t.Context(), rt, "")
			if err != nil {
				t.Fatal(err)
			}
			defer server.Close()
			config := embedded.PodConfig("ns", "pod", "uid-1", 0, embedded.Burstable)
			sandbox, err := rt.RunPod(t.Context(), config)
			if err != nil {
				t.Fatal(err)
			}

			ctx, cancel := context.WithCancel(t.Context())
			r, w := io.Pipe()
			ended := make(chan error, 1)
			go func() {
				ended <- generate(ctx, Options{Endpoint: server.Endpoint(), Period: 10 * time.Millisecond, Stdout: w, Log: slog.New(slog.DiscardHandler)})
				w.Close()
			}()
			lines := bufio.NewScanner(r)
			var told []event.Event
			await := func(want event.Type) {
				t.Helper()
				for lines.Scan() {
					var e event.Event
					if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
						t.Fatalf("%v: %s", err, lines.Text())
					}
					told = append(told, e)
					if e.Type == want {
						return
					}
				}
				t.Fatalf("it ended without %s", want)
			}
			// When it has begun to look, the first of these is told.
			stop := make(chan struct{})
			var probing sync.WaitGroup
			probing.Go(func() {
				tick := time.NewTicker(5 * time.Millisecond)
				defer tick.Stop()
				for n := uint32(0); ; n++ {
					if _, err := rt.Create(t.Context(), sandbox, embedded.ContainerConfig(config, "probe", n, "image", "run")); err != nil {
						t.Error(err)
					}
					select {
					case <-tick.C:
					case <-stop:
						return
					}
				}
			})
			await(event.ContainerCreated)
			close(stop)
			probing.Wait()
			id, err := rt.Create(t.Context(), sandbox, embedded.ContainerConfig(config, "c", 0, "image", "run"))
			if err != nil {
				t.Fatal(err)
			}
			if err := rt.Start(t.Context(), id); err != nil {
				t.Fatal(err)
			}
			await(event.ContainerStarted)
			if err := rt.Exit(id, 0, ""); err != nil {
				t.Fatal(err)
			}
			await(event.ContainerDied)
			if err := rt.Remove(t.Context(), id); err != nil {
				t.Fatal(err)
			}
			await(event.ContainerRemoved)
			for _, e := range told {
				if e.Container == nil || e.Container.Name == "c" && e.Container.ID != id || e.Pod.UID != "uid-1" || e.Sandbox.ID != sandbox {
					t.Errorf("it told of %+v", e)
				}
			}
			if err := eventtest.CheckLaw(told); err != nil {
				t.Error(err)
			}
			cancel()
			for lines.Scan() { // what is still to come
			}
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}

func TestChanges(t *testing.T) {
	at := func(s runtimeapi.ContainerState) *runtimeapi.Container { return &runtimeapi.Container{State: s} }
	created, running := at(runtimeapi.ContainerState_CONTAINER_CREATED), at(runtimeapi.ContainerState_CONTAINER_RUNNING)
	exited, unknown := at(runtimeapi.ContainerState_CONTAINER_EXITED), at(runtimeapi.ContainerState_CONTAINER_UNKNOWN)
	const c, s, d, r = event.ContainerCreated, event.ContainerStarted, event.ContainerDied, event.ContainerRemoved
	for _, test := range []struct {
		from, to *runtimeapi.Container
		want     []event.Type
	}{
		{nil, created, []event.Type{c}}, {nil, running, []event.Type{c, s}}, {nil, exited, []event.Type{c, s, d}},
		{created, created, nil}, {created, running, []event.Type{s}}, {created, nil, []event.Type{s, d, r}},
		{running, exited, []event.Type{d}}, {running, nil, []event.Type{d, r}}, {running, unknown, nil},
		{exited, nil, []event.Type{r}}, {exited, exited, nil},
	} {
		if got := changes(test.from, test.to); !slices.Equal(got, test.want) {
			t.Errorf("from %v to %v it tells %v, want %v", test.from, test.to, got, test.want)
		}
	}
}
