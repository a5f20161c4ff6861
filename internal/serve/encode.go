package serve

import (
	"bytes"
	"encoding/json"
	"sync"
	"sync/atomic"

	hybridplegv1 "github.com/hybrid-pleg/hybrid-pleg/api/hybridpleg/v1"
	"github.com/hybrid-pleg/hybrid-pleg/internal/wire"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/merge"
	"google.golang.org/protobuf/proto"
)

const (
	// cachedEvents is how many of the latest events are kept encoded. Watchers that
	// keep up are within a few events of each other; one that catches up encodes for
	// itself.
	cachedEvents = 256
	// cachedBytes bounds the memory of the encodings, for pods with large annotations.
	cachedBytes = 8 << 20
)

// line is an item of a watch as JSON: what WatchResponse is in protobuf.
type line struct {
	Pod      *event.PodStatus `json:"pod,omitempty"`
	Synced   *struct{}        `json:"synced,omitempty"`
	Event    *event.Event     `json:"event,omitempty"`
	Expired  *expiredLine     `json:"expired,omitempty"`
	Bookmark *struct{}        `json:"bookmark,omitempty"`
	Token    string           `json:"token,omitempty"`
}

type expiredLine struct {
	Since string `json:"since"`
}

// encodeJSON returns v as a line.
func encodeJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// form is one event in one form, made by the first who needs it.
type form struct {
	once sync.Once
	data []byte
	err  error
}

func (x *form) get(encode func() ([]byte, error)) ([]byte, error) {
	x.once.Do(func() { x.data, x.err = encode() })
	return x.data, x.err
}

// encoded is an event in all forms, as an item of a watch. The item is the same for
// all watchers, since its token is the event's place.
type encoded struct {
	event       *event.Event
	proto, json form
	// bytes is what the cache was charged for it; of the cache's lock.
	bytes int
}

// cache holds the latest events encoded, so that a thousand watchers do not encode
// one a thousand times.
type cache struct {
	slots [cachedEvents]atomic.Pointer[encoded]

	mu    sync.Mutex // of those that fill slots and charge bytes
	bytes int
}

// of returns the place of e's encodings. It may be one that nobody else gets.
func (c *cache) of(e *event.Event) *encoded {
	slot := &c.slots[e.Sequence%cachedEvents]
	if have := slot.Load(); have != nil && have.event == e {
		return have
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	have := slot.Load()
	switch {
	case have != nil && have.event == e:
		return have
	case have != nil && have.event.Sequence > e.Sequence:
		return &encoded{event: e} // of a watcher that catches up
	case have != nil:
		c.bytes -= have.bytes
		have.bytes = 0
	}
	fresh := &encoded{event: e}
	slot.Store(fresh)
	return fresh
}

// charge counts what was encoded, and forgets the place when that is too much.
func (c *cache) charge(x *encoded, bytes int) {
	slot := &c.slots[x.event.Sequence%cachedEvents]
	c.mu.Lock()
	defer c.mu.Unlock()
	if slot.Load() != x {
		return // it is nobody's any more
	}
	c.bytes += bytes
	x.bytes += bytes
	if c.bytes > cachedBytes {
		c.bytes -= x.bytes
		x.bytes = 0
		slot.Store(nil)
	}
}

// proto returns e as an encoded WatchResponse.
func (c *cache) proto(e *event.Event) ([]byte, error) {
	x := c.of(e)
	return x.proto.get(func() ([]byte, error) {
		data, err := proto.Marshal(&hybridplegv1.WatchResponse{
			Token: merge.Token{Epoch: e.Epoch, Sequence: e.Sequence}.String(),
			Item:  &hybridplegv1.WatchResponse_Event{Event: wire.Event(e)},
		})
		c.charge(x, len(data))
		return data, err
	})
}

// json returns e as a line.
func (c *cache) json(e *event.Event) ([]byte, error) {
	x := c.of(e)
	return x.json.get(func() ([]byte, error) {
		data, err := encodeJSON(line{Event: e, Token: merge.Token{Epoch: e.Epoch, Sequence: e.Sequence}.String()})
		c.charge(x, len(data))
		return data, err
	})
}
