package client_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/hybrid-pleg/hybrid-pleg/internal/daemontest"
	"github.com/hybrid-pleg/hybrid-pleg/internal/serve"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/client"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/merge"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/relist"
)

// exampleDaemon stands for hybrid-pleg run --listen: one pod, whose container ends
// once somebody watches.
func exampleDaemon() (address string, log *merge.Log, stop func()) {
	log, err := merge.New(merge.Options{Epoch: "example"})
	if err != nil {
		panic(err)
	}
	web := relist.Change{
		Type: event.ContainerStarted, Pod: event.Pod{UID: "6f0b", Namespace: "shop", Name: "web"},
		Container: &event.Container{ID: "c1", Name: "api"},
	}
	log.Publish([]relist.Change{web})
	dir, err := os.MkdirTemp("", "hp")
	if err != nil {
		panic(err)
	}
	path := filepath.Join(dir, "s")
	l, err := serve.ListenSocket(context.Background(), path, -1)
	if err != nil {
		panic(err)
	}
	server, err := serve.New(serve.Options{Backend: &daemontest.Backend{Log: log}})
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx, serve.Listeners{Local: l}) }()
	return "unix://" + path, log, func() {
		cancel()
		<-ended
		os.RemoveAll(dir)
	}
}

func ended(id string) []relist.Change {
	code := int32(3)
	return []relist.Change{{
		Type: event.ContainerDied, Pod: event.Pod{UID: "6f0b", Namespace: "shop", Name: "web"},
		Container: &event.Container{ID: id, Name: "api"}, Status: &event.Status{ExitCode: &code, Reason: "Error"},
	}}
}

// All pods as they are, and then what happens.
func ExampleClient_Events() {
	address, log, stop := exampleDaemon()
	defer stop()

	c, err := client.New(client.Options{Address: address})
	if err != nil {
		panic(err)
	}
	defer c.Close()
	for u, err := range c.Events(context.Background(), client.WatchOptions{}) {
		if err != nil {
			panic(err)
		}
		switch u.Kind {
		case client.KindReset:
			fmt.Println("forget everything")
		case client.KindPod:
			fmt.Println("pod", u.Pod.Pod.Name, "with a container that is", u.Pod.Containers[0].State)
		case client.KindSynced:
			fmt.Println("those were all; to go on later, keep", u.Token)
			log.Publish(ended("c1"))
		case client.KindEvent:
			fmt.Println(u.Event.Type, "of", u.Event.Container.Name, "with status", *u.Event.Status.ExitCode)
		}
		if u.Kind == client.KindEvent {
			break
		}
	}
	// Output:
	// forget everything
	// pod web with a container that is running
	// those were all; to go on later, keep example-1
	// ContainerDied of api with status 3
}

// A token, kept over the caller's own restart, brings what happened meanwhile.
func ExampleWatchOptions_since() {
	address, log, stop := exampleDaemon()
	defer stop()
	kept := log.Token()
	log.Publish(ended("c1"))

	c, err := client.New(client.Options{Address: address})
	if err != nil {
		panic(err)
	}
	defer c.Close()
	for u, err := range c.Events(context.Background(), client.WatchOptions{Since: kept}) {
		if err != nil {
			panic(err)
		}
		fmt.Println(u.Kind, u.Token)
		if u.Kind == client.KindSynced {
			break
		}
	}
	// Output:
	// event example-2
	// synced example-2
}

func ExampleClient_List() {
	address, _, stop := exampleDaemon()
	defer stop()

	c, err := client.New(client.Options{Address: address})
	if err != nil {
		panic(err)
	}
	defer c.Close()
	snapshot, err := c.List(context.Background(), client.Filter{Namespaces: []string{"shop"}})
	if err != nil {
		panic(err)
	}
	for _, p := range snapshot.Pods {
		fmt.Println(p.Pod.Namespace, p.Pod.Name, p.Containers[0].State)
	}
	// Output:
	// shop web running
}
