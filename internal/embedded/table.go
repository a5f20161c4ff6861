package embedded

import (
	"cmp"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// entry is what a table keeps.
type entry interface {
	comparable
	key() (id string, number uint64)
}

// table keeps entries by ID and in the order in which they were made.
type table[E entry] struct {
	what  string
	byID  map[string]E
	order []E
}

func newTable[E entry](what string) table[E] {
	return table[E]{what: what, byID: map[string]E{}}
}

func (t *table[E]) add(e E) {
	id, _ := e.key()
	t.byID[id] = e
	t.order = append(t.order, e)
}

func (t *table[E]) remove(e E) {
	id, number := e.key()
	delete(t.byID, id)
	i, ok := slices.BinarySearchFunc(t.order, number, func(e E, n uint64) int {
		_, number := e.key()
		return cmp.Compare(number, n)
	})
	if ok {
		t.order = slices.Delete(t.order, i, i+1)
	}
}

// find takes a full ID or, as containerd does for the sake of people at a
// keyboard, the beginning of just one. The error has code NotFound.
func (t *table[E]) find(id string) (E, error) {
	if e, ok := t.byID[id]; ok {
		return e, nil
	}
	var none, found E
	if id != "" && len(id) < idLength {
		for full, e := range t.byID {
			if !strings.HasPrefix(full, id) {
				continue
			}
			if found != none {
				return none, status.Errorf(codes.NotFound, "%s %q: several IDs begin so, give more of it", t.what, id)
			}
			found = e
		}
	}
	if found == none {
		return none, status.Errorf(codes.NotFound, "%s %q not found", t.what, id)
	}
	return found, nil
}
