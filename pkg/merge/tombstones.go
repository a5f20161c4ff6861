package merge

import "crypto/sha256"

// tombstones remembers the IDs that were removed last, the oldest forgotten first.
// An ID is kept as half of its SHA-256: of fixed size however long the runtime
// makes IDs, far beyond chance collisions, and the same in every process.
type tombstones struct {
	set   map[Tombstone]struct{}
	order []Tombstone // a ring once it has grown to limit
	next  int         // where in the full ring the oldest is
	limit int
	added uint64 // how many were ever put in
}

func newTombstones(limit int) tombstones {
	return tombstones{set: make(map[Tombstone]struct{}), limit: limit}
}

func newTombstone(k kind, id string) Tombstone {
	var buf [128]byte // an ID of today's runtimes has 64 digits
	sum := sha256.Sum256(append(append(buf[:0], byte(k)), id...))
	return Tombstone(sum[:16])
}

// add remembers an ID that is not remembered yet.
func (t *tombstones) add(k kind, id string) { t.put(newTombstone(k, id)) }

func (t *tombstones) put(stone Tombstone) {
	t.added++
	if len(t.order) < t.limit {
		t.order = append(t.order, stone)
	} else {
		delete(t.set, t.order[t.next])
		t.order[t.next] = stone
		t.next = (t.next + 1) % t.limit
	}
	t.set[stone] = struct{}{}
}

func (t *tombstones) has(k kind, id string) bool {
	if len(t.set) == 0 {
		return false
	}
	_, ok := t.set[newTombstone(k, id)]
	return ok
}

// newest returns the n that were put in last, the oldest of them first.
func (t *tombstones) newest(n int) []Tombstone {
	if n == 0 {
		return nil
	}
	stones := make([]Tombstone, 0, n)
	for i := len(t.order) - n; i < len(t.order); i++ {
		stones = append(stones, t.order[(t.next+i)%len(t.order)])
	}
	return stones
}
