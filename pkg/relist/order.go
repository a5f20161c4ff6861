package relist

import (
	"cmp"
	"slices"
)

// sortSteps puts the steps of one observation of a pod into the natural order:
// an earlier sandbox's before a later one's; within a sandbox the sandbox's
// start, then its containers created, started, died, removed, then the
// sandbox's end. Of several attempts of one container name an earlier one's end
// comes before a later one's beginning.
func sortSteps(steps []step) {
	if len(steps) < 2 {
		return
	}
	sandboxes := sandboxRanks(steps)
	rounds := attemptRounds(steps)
	slices.SortStableFunc(steps, func(a, b step) int {
		return cmp.Or(
			cmp.Compare(sandboxes[a.rec.sandboxID()], sandboxes[b.rec.sandboxID()]),
			cmp.Compare(a.phase(), b.phase()),
			cmp.Compare(rounds[a.rec], rounds[b.rec]),
			cmp.Compare(a.verb, b.verb),
			cmp.Compare(a.rec.createdAt, b.rec.createdAt),
			cmp.Compare(a.rec.id(), b.rec.id()),
		)
	})
}

// phase puts a sandbox's start before, and its end after, what its containers
// did.
func (s step) phase() int {
	switch {
	case s.rec.container != nil:
		return 1
	case s.verb == died || s.verb == removed:
		return 2
	default:
		return 0
	}
}

// attemptRounds numbers, for each container name of a sandbox that has steps for
// more than one attempt, the attempts from the earliest on; all others are 0.
func attemptRounds(steps []step) map[*record]int {
	byName := make(map[[2]string][]*record)
	for _, s := range steps {
		if s.rec.container == nil || s.rec.container.Name == "" {
			continue
		}
		key := [2]string{s.rec.sandboxID(), s.rec.container.Name}
		if !slices.Contains(byName[key], s.rec) {
			byName[key] = append(byName[key], s.rec)
		}
	}
	rounds := make(map[*record]int, len(steps))
	for _, recs := range byName {
		slices.SortFunc(recs, func(a, b *record) int {
			return cmp.Or(
				cmp.Compare(a.container.Attempt, b.container.Attempt),
				cmp.Compare(a.createdAt, b.createdAt),
				cmp.Compare(a.id(), b.id()),
			)
		})
		for i, rec := range recs {
			rounds[rec] = i
		}
	}
	return rounds
}

// lineage is what is known of the age of a sandbox that has steps.
type lineage struct {
	id string
	// home is the sandbox's record; nil where no listing ever showed it.
	home       *record
	containers []*record
}

// sandboxRanks numbers the sandboxes from the earliest on: by their attempts,
// then by when they were made. One that no listing showed has neither; it is put
// where its containers' attempts or else their age say.
func sandboxRanks(steps []step) map[string]int {
	var order []*lineage
	for _, s := range steps {
		id := s.rec.sandboxID()
		i := slices.IndexFunc(order, func(l *lineage) bool { return l.id == id })
		if i < 0 {
			i = len(order)
			order = append(order, &lineage{id: id})
		}
		l := order[i]
		if s.rec.home != nil {
			l.home = s.rec.home
		}
		if s.rec.container != nil {
			l.containers = append(l.containers, s.rec)
		}
	}
	if len(order) == 1 {
		return map[string]int{order[0].id: 0}
	}
	var known, unknown []*lineage
	for _, l := range order {
		if l.home != nil {
			known = append(known, l)
		} else {
			unknown = append(unknown, l)
		}
	}
	slices.SortFunc(known, func(a, b *lineage) int {
		return cmp.Or(
			cmp.Compare(a.home.sandbox.Attempt, b.home.sandbox.Attempt),
			cmp.Compare(a.home.createdAt, b.home.createdAt),
			cmp.Compare(a.id, b.id),
		)
	})
	// By ID first, so that the result does not hang on the order of the listing.
	slices.SortFunc(unknown, func(a, b *lineage) int { return cmp.Compare(a.id, b.id) })
	for _, l := range unknown {
		i := slices.IndexFunc(known, l.before)
		if i < 0 {
			i = len(known)
		}
		known = slices.Insert(known, i, l)
	}
	ranks := make(map[string]int, len(known))
	for i, l := range known {
		ranks[l.id] = i
	}
	return ranks
}

// before reports whether l, whose sandbox is not known, is earlier than other.
func (l *lineage) before(other *lineage) bool {
	for _, a := range l.containers {
		for _, b := range other.containers {
			if a.container.Name == b.container.Name && a.container.Attempt != b.container.Attempt {
				return a.container.Attempt < b.container.Attempt
			}
		}
	}
	return l.createdAt() < other.createdAt()
}

// createdAt is when the sandbox was made or, where that is not known, its first
// container.
func (l *lineage) createdAt() int64 {
	if l.home != nil {
		return l.home.createdAt
	}
	return slices.MinFunc(l.containers, func(a, b *record) int { return cmp.Compare(a.createdAt, b.createdAt) }).createdAt
}
