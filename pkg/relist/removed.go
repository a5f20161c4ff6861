package relist

import "time"

// rememberRemoved is how many removed IDs are remembered. An ID needs to be known
// only while an observation begun before its removal may still arrive, and while
// signals about it still do: seconds, in which a node removes a few hundred.
const rememberRemoved = 16384

// removedIDs remembers what was removed last, items and pods, and when. The zero
// value is empty.
type removedIDs struct {
	places map[string]place
	ring   []string
	next   int
}

// place is by which observation an ID was removed, and where in the ring it
// stands.
type place struct {
	stamp time.Duration
	gen   uint64
	slot  int
}

func (r *removedIDs) add(id string, stamp time.Duration, gen uint64) {
	if r.places == nil {
		r.places = make(map[string]place)
	}
	slot := r.next
	if len(r.ring) < rememberRemoved {
		r.ring = append(r.ring, id)
	} else {
		// The ID here may have been removed again since, and so stand elsewhere too.
		if old := r.ring[slot]; r.places[old].slot == slot {
			delete(r.places, old)
		}
		r.ring[slot] = id
	}
	r.next = (slot + 1) % rememberRemoved
	r.places[id] = place{stamp, gen, slot}
}

func (r *removedIDs) at(id string) (place, bool) {
	p, ok := r.places[id]
	return p, ok
}

// forget drops an ID; its place in the ring is reused in its turn.
func (r *removedIDs) forget(id string) { delete(r.places, id) }
