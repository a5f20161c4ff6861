package pleg_test

import (
	"context"
	"fmt"

	"github.com/hybrid-pleg/hybrid-pleg/internal/embedded"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/merge"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/pleg"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/trigger"
)

// The examples run on a runtime in memory. A program gives the Endpoint of a real
// one instead, such as unix:///run/containerd/containerd.sock.
func exampleRuntime() *embedded.Runtime {
	return embedded.New(embedded.Options{Lag: embedded.NoLag()})
}

// A generator runs until its context ends. A watch begins with the pods that are
// there, then says that they are complete, then goes on with events.
func Example() {
	rt := exampleRuntime()
	defer rt.Close()
	g, err := pleg.New(pleg.Options{Runtime: rt.Client(), Triggers: []trigger.SourceName{trigger.SourceCRI}})
	if err != nil {
		panic(err)
	}
	w, err := g.Watch(merge.WatchOptions{})
	if err != nil {
		panic(err)
	}
	defer w.Close()

	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- g.Run(ctx) }()

	// What happens on the node, in steps, so that each is seen.
	config := embedded.PodConfig("shop", "web-0", "a-uid", 0, embedded.Burstable)
	var container string
	steps := map[event.Type]func(e *event.Event) error{
		event.SandboxStarted: func(e *event.Event) (err error) {
			container, err = rt.Create(ctx, e.Sandbox.ID, embedded.ContainerConfig(config, "api", 0, "web:1", "run"))
			return err
		},
		event.ContainerCreated: func(*event.Event) error { return rt.Start(ctx, container) },
		event.ContainerStarted: func(*event.Event) error { return rt.Exit(container, 3, "") },
		event.ContainerDied:    func(e *event.Event) error { cancel(); return nil },
	}
	for item, err := range w.All(context.Background()) {
		if err != nil {
			break // merge.ErrClosed: the generator has ended
		}
		switch item.Kind {
		case merge.ItemSynced:
			if _, err := rt.RunPod(ctx, config); err != nil {
				panic(err)
			}
		case merge.ItemEvent:
			e := item.Event
			fmt.Print(e.Sequence, " ", e.Type, " ", e.Pod.Namespace, "/", e.Pod.Name)
			if e.Status != nil && e.Status.ExitCode != nil {
				fmt.Print(", exit code ", *e.Status.ExitCode)
			}
			fmt.Println()
			if err := steps[e.Type](e); err != nil {
				panic(err)
			}
		}
	}
	if err := <-ended; err != nil {
		panic(err)
	}
	// Output:
	// 1 SandboxStarted shop/web-0
	// 2 ContainerCreated shop/web-0
	// 3 ContainerStarted shop/web-0
	// 4 ContainerDied shop/web-0, exit code 3
}

// A snapshot is the state of all pods as told so far. With its token, a watch gets
// every event since.
func ExampleGenerator_Snapshot() {
	rt := exampleRuntime()
	defer rt.Close()
	ctx, cancel := context.WithCancel(context.Background())
	config := embedded.PodConfig("shop", "web-0", "a-uid", 0, embedded.Burstable)
	sandbox, err := rt.RunPod(ctx, config)
	if err != nil {
		panic(err)
	}

	g, err := pleg.New(pleg.Options{Runtime: rt.Client(), Triggers: []trigger.SourceName{trigger.SourceCRI}})
	if err != nil {
		panic(err)
	}
	first, err := g.Watch(merge.WatchOptions{})
	if err != nil {
		panic(err)
	}
	defer first.Close()
	ended := make(chan error)
	go func() { ended <- g.Run(ctx) }()
	next := func(w *merge.Watcher) *event.Event {
		for item, err := range w.All(ctx) {
			if err != nil {
				panic(err)
			}
			if item.Kind == merge.ItemEvent {
				return item.Event
			}
		}
		return nil
	}
	next(first)

	snapshot := g.Snapshot()
	for _, pod := range snapshot.Pods {
		fmt.Println(pod.Pod.Name, pod.Sandboxes[0].State)
	}
	since, err := g.Watch(merge.WatchOptions{Since: snapshot.Token})
	if err != nil {
		panic(err)
	}
	defer since.Close()
	if err := rt.RemovePod(ctx, sandbox); err != nil {
		panic(err)
	}
	fmt.Println(next(since).Type)

	cancel()
	if err := <-ended; err != nil {
		panic(err)
	}
	// Output:
	// web-0 running
	// SandboxDied
}

// With Triggers empty, everything is found by the period, and by asking.
func ExampleGenerator_RequestRelist() {
	rt := exampleRuntime()
	defer rt.Close()
	g, err := pleg.New(pleg.Options{Runtime: rt.Client(), Triggers: []trigger.SourceName{}})
	if err != nil {
		panic(err)
	}
	events, err := g.Watch(merge.WatchOptions{})
	if err != nil {
		panic(err)
	}
	defer events.Close()
	ctx, cancel := context.WithCancel(context.Background())
	if _, err := rt.RunPod(ctx, embedded.PodConfig("shop", "web-0", "a-uid", 0, embedded.Burstable)); err != nil {
		panic(err)
	}
	ended := make(chan error)
	go func() { ended <- g.Run(ctx) }()

	for item, err := range events.All(ctx) {
		if err != nil {
			panic(err)
		}
		if item.Kind != merge.ItemEvent {
			continue
		}
		fmt.Println(item.Event.Type)
		if item.Event.Type == event.PodSync {
			break
		}
		g.RequestReinspect(item.Event.Pod.UID)
	}
	cancel()
	if err := <-ended; err != nil {
		panic(err)
	}
	// Output:
	// SandboxStarted
	// PodSync
}
