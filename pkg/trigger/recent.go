package trigger

// rememberIDs is how many IDs are remembered: the containers that a busy build host
// makes beside the runtime's in some hours.
const rememberIDs = 4096

// recentIDs remembers the IDs added last. The zero value is empty.
type recentIDs struct {
	known map[string]struct{}
	ring  []string
	next  int
}

func (r *recentIDs) has(id string) bool {
	_, ok := r.known[id]
	return ok
}

// add reports whether the ID is new.
func (r *recentIDs) add(id string) bool {
	if r.has(id) {
		return false
	}
	if r.known == nil {
		r.known = make(map[string]struct{})
	}
	r.known[id] = struct{}{}
	if len(r.ring) < rememberIDs {
		r.ring = append(r.ring, id)
		return true
	}
	delete(r.known, r.ring[r.next])
	r.ring[r.next] = id
	r.next = (r.next + 1) % rememberIDs
	return true
}
