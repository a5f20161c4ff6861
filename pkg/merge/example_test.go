package merge_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/merge"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/relist"
)

func change(typ event.Type, id string) relist.Change {
	return relist.Change{
		Type:      typ,
		Pod:       event.Pod{UID: "6f0b", Namespace: "default", Name: "web"},
		Container: &event.Container{ID: id, Name: "main"},
	}
}

// A watcher gets the pods as they are, then every event, each once.
func ExampleLog_Watch() {
	log, err := merge.New(merge.Options{Epoch: "example"})
	if err != nil {
		panic(err)
	}
	log.Publish([]relist.Change{change(event.ContainerStarted, "c1")})

	w, err := log.Watch(merge.WatchOptions{})
	if err != nil {
		panic(err)
	}
	defer w.Close()

	log.Publish([]relist.Change{
		change(event.ContainerDied, "c1"),
		change(event.ContainerDied, "c1"), // seen again, told once
	})
	log.Close()

	for item, err := range w.All(context.Background()) {
		if errors.Is(err, merge.ErrClosed) {
			break
		}
		switch item.Kind {
		case merge.ItemPod:
			fmt.Println("pod", item.Pod.Pod.Name, item.Pod.Containers[0].State)
		case merge.ItemSynced:
			fmt.Println("synced at", item.Token)
		case merge.ItemEvent:
			fmt.Println("event", item.Event.Sequence, item.Event.ID)
		}
	}
	// Output:
	// pod web running
	// synced at example-1
	// event 2 c1/ContainerDied
}

// A token, kept over a restart of the client, brings what happened meanwhile.
func ExampleWatchOptions_since() {
	log, err := merge.New(merge.Options{Epoch: "example"})
	if err != nil {
		panic(err)
	}
	kept := log.Token().String()
	log.Publish([]relist.Change{change(event.ContainerStarted, "c1")})

	since, err := merge.ParseToken(kept)
	if err != nil {
		panic(err)
	}
	w, err := log.Watch(merge.WatchOptions{Since: since})
	if err != nil {
		panic(err)
	}
	defer w.Close()
	for range 2 {
		item, err := w.Next(context.Background())
		fmt.Println(item.Kind, item.Token, err)
	}
	// Output:
	// event example-1 <nil>
	// synced example-1 <nil>
}
