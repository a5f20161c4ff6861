package serve

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"

	hybridplegv1 "github.com/hybrid-pleg/hybrid-pleg/api/hybridpleg/v1"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	"google.golang.org/protobuf/proto"
)

func sized(sequence uint64, bytes int) *event.Event {
	return &event.Event{Epoch: "e", Sequence: sequence, ID: fmt.Sprint(sequence), Type: event.ContainerDied,
		Pod: event.Pod{UID: "u"}, Status: &event.Status{Message: strings.Repeat("m", bytes)}}
}

// TestCacheEncodesOnce has many ask for the same event at the same time.
func TestCacheEncodesOnce(t *testing.T) {
	var c cache
	e := sized(7, 100)
	first, err := c.proto(e)
	if err != nil {
		t.Fatal(err)
	}
	var m hybridplegv1.WatchResponse
	if err := proto.Unmarshal(first, &m); err != nil || m.GetToken() != "e-7" || m.GetEvent().GetSequence() != 7 {
		t.Errorf("%v, %v", &m, err)
	}
	text, err := c.json(e)
	if err != nil || !bytes.HasSuffix(text, []byte(`,"token":"e-7"}`+"\n")) {
		t.Errorf("%s, %v", text, err)
	}
	var askers sync.WaitGroup
	for range 8 {
		askers.Go(func() {
			if again, err := c.proto(e); err != nil || &again[0] != &first[0] {
				t.Errorf("it was encoded again (%v)", err)
			}
			if again, err := c.json(e); err != nil || &again[0] != &text[0] {
				t.Errorf("it was encoded again (%v)", err)
			}
		})
	}
	askers.Wait()
	if c.bytes != len(first)+len(text) {
		t.Errorf("%d bytes are charged for %d", c.bytes, len(first)+len(text))
	}
}

// TestCacheKeepsTheLatest has one watcher that catches up beside those that keep up.
func TestCacheKeepsTheLatest(t *testing.T) {
	var c cache
	late, early := sized(cachedEvents+3, 10), sized(3, 20)
	kept, _ := c.proto(late)
	if data, err := c.proto(early); err != nil || len(data) <= len(kept) {
		t.Errorf("the early one has %d bytes, %v", len(data), err)
	}
	if again, _ := c.proto(late); &again[0] != &kept[0] {
		t.Error("the early one has pushed out the late one")
	}
	// What replaces an event gives back its bytes.
	next, _ := c.proto(sized(2*cachedEvents+3, 30))
	if c.bytes != len(next) {
		t.Errorf("%d bytes are charged for %d", c.bytes, len(next))
	}
}

// TestCacheIsBounded has events that are too large to be kept all.
func TestCacheIsBounded(t *testing.T) {
	var c cache
	for n := range uint64(3 * cachedEvents) {
		e := sized(n+1, 100<<10)
		if data, err := c.proto(e); err != nil || len(data) < 100<<10 {
			t.Fatalf("%d bytes, %v", len(data), err)
		}
		held := 0
		for i := range c.slots {
			if x := c.slots[i].Load(); x != nil {
				held += x.bytes
			}
		}
		if held != c.bytes || held > cachedBytes {
			t.Fatalf("%d bytes are held, %d charged", held, c.bytes)
		}
	}
	if c.bytes < cachedBytes/2 {
		t.Errorf("only %d bytes are in use", c.bytes)
	}
}
