package relist

import (
	"hash/maphash"
	"iter"
)

// index finds records by their ID, as a map does; but many lookups can be made
// together. An observation of everything looks up each record, in no order, and most
// of its time goes into waiting for memory: for the ID, for the place in the table,
// for the record. Taken step by step for several IDs the waits of a step overlap,
// since none needs what another brings.
//
// It is a hash table with open addressing and linear probing, in which a deletion
// leaves no gap (Knuth, The Art of Computer Programming, volume 3, section 6.4,
// algorithms L and R). Like a map it does not shrink.
type index struct {
	seed  maphash.Seed
	slots []slot // as many as a power of two
	n     int
	// loaded makes the loads of getAll count for something, so that they are not
	// left out.
	loaded byte
}

// slot is a place in the table; free where rec is nil.
type slot struct {
	hash uint64
	id   string
	rec  *record
}

const (
	// lookupBatch is how many lookups are made together: more than the loads that a
	// processor keeps under way, and few enough that what they bring stays in its
	// nearest cache.
	lookupBatch = 32
	// leastSlots is the size of an empty table. At most three quarters are in use.
	leastSlots = 16
)

func newIndex() index {
	return index{seed: maphash.MakeSeed(), slots: make([]slot, leastSlots)}
}

func (x *index) len() int { return x.n }

func (x *index) hash(id string) uint64 { return maphash.String(x.seed, id) }

// home is where the search for a hash begins.
func (x *index) home(hash uint64) int { return int(hash & uint64(len(x.slots)-1)) }

func (x *index) next(i int) int { return (i + 1) & (len(x.slots) - 1) }

// find returns where an ID is, or the free place where it would be put.
func (x *index) find(id string, hash uint64) int {
	for i := x.home(hash); ; i = x.next(i) {
		if s := &x.slots[i]; s.rec == nil || s.hash == hash && s.id == id {
			return i
		}
	}
}

// get returns the record of an ID; nil if there is none.
func (x *index) get(id string) *record { return x.slots[x.find(id, x.hash(id))].rec }

// getAll is get for up to lookupBatch IDs.
func (x *index) getAll(ids []string, recs []*record) {
	var loaded byte
	for _, id := range ids {
		loaded += load(id)
	}
	var hashes [lookupBatch]uint64
	for i, id := range ids {
		hashes[i] = x.hash(id)
	}
	for i := range ids {
		recs[i] = x.slots[x.home(hashes[i])].rec
	}
	for i := range ids {
		if recs[i] != nil {
			loaded += load(x.slots[x.home(hashes[i])].id) + byte(recs[i].gen)
		}
	}
	x.loaded = loaded
	for i, id := range ids {
		recs[i] = x.slots[x.find(id, hashes[i])].rec
	}
}

// load touches a string where it begins and ends: an ID lies in two lines of the
// cache.
func load(s string) byte {
	if s == "" {
		return 0
	}
	return s[0] + s[len(s)-1]
}

// put sets the record of an ID.
func (x *index) put(id string, rec *record) {
	hash := x.hash(id)
	i := x.find(id, hash)
	if x.slots[i].rec == nil {
		if 4*(x.n+1) > 3*len(x.slots) {
			x.grow()
			i = x.find(id, hash)
		}
		x.n++
	}
	x.slots[i] = slot{hash, id, rec}
}

func (x *index) grow() {
	old := x.slots
	x.slots = make([]slot, 2*len(old))
	for _, s := range old {
		if s.rec != nil {
			x.slots[x.find(s.id, s.hash)] = s
		}
	}
}

// remove takes an ID out; it need not be there.
func (x *index) remove(id string) {
	i := x.find(id, x.hash(id))
	if x.slots[i].rec == nil {
		return
	}
	x.n--
	// What comes after moves up, unless its search begins behind the gap.
	for j := x.next(i); x.slots[j].rec != nil; j = x.next(j) {
		home := x.home(x.slots[j].hash)
		if i <= j && (home <= i || home > j) || i > j && home <= i && home > j {
			x.slots[i] = x.slots[j]
			i = j
		}
	}
	x.slots[i] = slot{}
}

// all yields the records in no order; nothing may be put or removed meanwhile.
func (x *index) all() iter.Seq2[string, *record] {
	return func(yield func(string, *record) bool) {
		for i := range x.slots {
			if s := &x.slots[i]; s.rec != nil && !yield(s.id, s.rec) {
				return
			}
		}
	}
}
