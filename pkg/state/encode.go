package state

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc64"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/merge"
	bolt "go.etcd.io/bbolt"
)

// What is in the file. Events and items are JSON, as programs outside get events: a
// field that is added later is simply absent from what was written before, and a
// person can read the file with bbolt's own tools. Encoding takes some microseconds an
// event, beside a write to disk of some hundred for all that came together.
var (
	bucketMeta    = []byte("meta")
	bucketJournal = []byte("journal") // sequence → time, event
	bucketItems   = []byte("items")   // kind, ID → merge.ItemState
	bucketRemoved = []byte("removed") // number → merge.Tombstone

	keyMagic  = []byte("magic")
	keyFormat = []byte("format")
	keyHead   = []byte("head")
)

const (
	magic = "hybrid-pleg state"
	// format is raised when a version before could not make sense of the file. What
	// it only does not know of, such as a further field, is no reason.
	format = 1
)

var crcTable = crc64.MakeTable(crc64.ECMA)

// total is what a bucket adds up to. bbolt does not notice a bit turned over in what
// it keeps, or a page that is an older one; this does.
type total struct {
	N     int    `json:"n"`
	Bytes int64  `json:"bytes"`
	Sum   uint64 `json:"sum"`
}

func (t *total) add(key, value []byte) {
	t.N++
	t.Bytes += int64(len(key) + len(value))
	t.Sum += checksum(key, value)
}

func (t *total) sub(key, value []byte) {
	t.N--
	t.Bytes -= int64(len(key) + len(value))
	t.Sum -= checksum(key, value)
}

func checksum(key, value []byte) uint64 {
	return crc64.Update(crc64.Checksum(key, crcTable), crcTable, value)
}

// head is what is true of the file as a whole.
type head struct {
	Epochs  []merge.Epoch `json:"epochs"`
	Journal total         `json:"journal"`
	Items   total         `json:"items"`
	Removed total         `json:"removed"`
}

func (h *head) encode() ([]byte, error) {
	data, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	return append(number(checksum(keyHead, data)), data...), nil
}

func (h *head) decode(value []byte) error {
	if len(value) < 8 || binary.BigEndian.Uint64(value) != checksum(keyHead, value[8:]) {
		return errors.New("its head is damaged")
	}
	return json.Unmarshal(value[8:], h)
}

// number is a key that sorts as the number does.
func number(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

// itemKey is a key that says as well whether it is of a container.
func itemKey(k merge.ItemKey) []byte {
	kind := byte('s')
	if k.Container {
		kind = 'c'
	}
	return append([]byte{kind}, k.ID...)
}

// encodeEvent puts the event's time before it, so that its age is known without
// decoding it.
func encodeEvent(e *event.Event) ([]byte, error) {
	data, err := json.Marshal(e)
	if err != nil {
		return nil, fmt.Errorf("encode event %d: %w", e.Sequence, err)
	}
	return append(number(uint64(e.Time.UnixNano())), data...), nil
}

func eventTime(value []byte) time.Time {
	if len(value) < 8 {
		return time.Time{}
	}
	return time.Unix(0, int64(binary.BigEndian.Uint64(value)))
}

func decodeEvent(value []byte) (*event.Event, error) {
	if len(value) < 8 {
		return nil, errors.New("an event is too short")
	}
	e := new(event.Event)
	if err := json.Unmarshal(value[8:], e); err != nil {
		return nil, fmt.Errorf("decode an event: %w", err)
	}
	return e, nil
}

// table is a bucket together with what it adds up to.
type table struct {
	*bolt.Bucket
	total *total
}

func (t table) put(key, value []byte) error {
	if old := t.Get(key); old != nil {
		t.total.sub(key, old)
	}
	t.total.add(key, value)
	return t.Put(key, value)
}

func (t table) remove(key []byte) error {
	old := t.Get(key)
	if old == nil {
		return nil
	}
	t.total.sub(key, old)
	return t.Delete(key)
}

func encodeItem(it *merge.ItemState) ([]byte, error) {
	data, err := json.Marshal(it)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", it.Key().ID, err)
	}
	return data, nil
}

func decodeItem(value []byte) (it merge.ItemState, err error) {
	if err := json.Unmarshal(value, &it); err != nil {
		return it, fmt.Errorf("decode an item: %w", err)
	}
	return it, nil
}
