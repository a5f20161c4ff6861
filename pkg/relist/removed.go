package relist

import "time"

// rememberRemoved is how many removed IDs are remembered. An ID needs to be known
// only while an observation begun before its removal may still arrive, and while
// signals about it still do: seconds, in which a node removes a few hundred.
const rememberRemoved = 16384

// removedIDs remembers the items removed last, and when. The zero value is empty.
type removedIDs struct {
	stamps map[string]time.Duration
	ring   []string
	next   int
}

func (r *removedIDs) add(id string, stamp time.Duration) {
	if r.stamps == nil {
		r.stamps = make(map[string]time.Duration)
	}
	if len(r.ring) < rememberRemoved {
		r.ring = append(r.ring, id)
	} else {
		delete(r.stamps, r.ring[r.next])
		r.ring[r.next] = id
		r.next = (r.next + 1) % rememberRemoved
	}
	r.stamps[id] = stamp
}

func (r *removedIDs) at(id string) (time.Duration, bool) {
	stamp, ok := r.stamps[id]
	return stamp, ok
}

// forget drops an ID; its place in the ring is reused in its turn.
func (r *removedIDs) forget(id string) { delete(r.stamps, id) }
