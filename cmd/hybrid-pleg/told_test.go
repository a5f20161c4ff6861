package main

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	"github.com/rogpeppe/go-internal/testscript"
)

// cmdTold judges what watch wrote as NDJSON: since a reset, of which there are as many
// as expected, each event once and each item's in the order of its life.
func cmdTold(ts *testscript.TestScript, neg bool, args []string) {
	want, err := strconv.Atoi(args[1])
	ts.Check(err)
	resets := 0
	var events []event.Event
	judge := func() {
		last := make(map[string]event.Type)
		ids := make(map[string]bool)
		order := make(map[event.Type]int)
		for i, typ := range []event.Type{
			event.ContainerCreated, event.ContainerStarted, event.SandboxStarted,
			event.ContainerDied, event.SandboxDied, event.ContainerRemoved, event.SandboxRemoved,
		} {
			order[typ] = i
		}
		for i := range events {
			e := &events[i]
			if ids[e.ID] {
				ts.Fatalf("%s is told twice", e.ID)
			}
			ids[e.ID] = true
			if e.Type == event.PodSync {
				continue
			}
			item, _, _ := strings.Cut(e.ID, "/")
			if before, ok := last[item]; ok && order[before] >= order[e.Type] {
				ts.Fatalf("%s comes after %s", e.ID, before)
			}
			last[item] = e.Type
		}
		events = nil
	}
	for text := range strings.Lines(ts.ReadFile(args[0])) {
		var line struct {
			Reset *struct{}
			Event *event.Event
		}
		ts.Check(json.Unmarshal([]byte(text), &line))
		switch {
		case line.Reset != nil:
			judge()
			resets++
		case line.Event != nil:
			events = append(events, *line.Event)
		}
	}
	judge()
	if resets != want {
		ts.Fatalf("there are %d resets, want %d", resets, want)
	}
}
