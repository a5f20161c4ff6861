package eventtest

import (
	"fmt"
	"slices"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
)

// Keys returns, sorted, a line for each event that says what happened to what,
// in words that are the same whenever and however it was found: two runs of one
// history must have the same keys. A PodSync, which depends on timing, has none;
// item IDs, which differ from run to run, are left out.
func Keys(events []event.Event) []string {
	keys := make([]string, 0, len(events))
	for i := range events {
		e := &events[i]
		if e.Type == event.PodSync {
			continue
		}
		key := fmt.Sprintf("%s/%s", e.Pod.Namespace, e.Pod.Name)
		if c := e.Container; c != nil {
			key += fmt.Sprintf(" %s#%d", c.Name, c.Attempt)
		} else if e.Sandbox != nil {
			key += fmt.Sprintf(" sandbox#%d", e.Sandbox.Attempt)
		}
		key += " " + string(e.Type)
		if s := e.Status; s != nil && e.Type == event.ContainerDied && s.ExitCode != nil {
			key += fmt.Sprintf(" exit %d", *s.ExitCode)
		}
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// OfItem returns the types told of a container or sandbox, in order.
func OfItem(events []event.Event, id string) []event.Type {
	var types []event.Type
	for i := range events {
		if events[i].ItemID() == id {
			types = append(types, events[i].Type)
		}
	}
	return types
}
