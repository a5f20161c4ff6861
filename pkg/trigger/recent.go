package trigger

// recent remembers the keys added last, up to a number of them.
type recent[K comparable] struct {
	size  int
	known map[K]struct{}
	ring  []K
	next  int
}

func newRecent[K comparable](size int) recent[K] {
	return recent[K]{size: size, known: make(map[K]struct{})}
}

func (r *recent[K]) has(key K) bool {
	_, ok := r.known[key]
	return ok
}

// add reports whether the key is new.
func (r *recent[K]) add(key K) bool {
	if r.has(key) {
		return false
	}
	r.known[key] = struct{}{}
	if len(r.ring) < r.size {
		r.ring = append(r.ring, key)
		return true
	}
	delete(r.known, r.ring[r.next])
	r.ring[r.next] = key
	r.next = (r.next + 1) % r.size
	return true
}
