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
	rounds := attemptRounds(steps)
	slices.SortStableFunc(steps, func(a, b step) int {
		return cmp.Or(
			compareSandboxes(a.rec, b.rec),
			cmp.Compare(a.phase(), b.phase()),
			cmp.Compare(rounds[a.rec], rounds[b.rec]),
			cmp.Compare(a.verb, b.verb),
			cmp.Compare(a.rec.createdAt, b.rec.createdAt),
			cmp.Compare(a.rec.id, b.rec.id),
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
				cmp.Compare(a.id, b.id),
			)
		})
		for i, rec := range recs {
			rounds[rec] = i
		}
	}
	return rounds
}

// compareSandboxes orders by the sandboxes that two records are or belong to.
func compareSandboxes(a, b *record) int {
	if a.sandboxID() == b.sandboxID() {
		return 0
	}
	var attemptA, attemptB uint32
	if a.sandbox != nil {
		attemptA = a.sandbox.Attempt
	}
	if b.sandbox != nil {
		attemptB = b.sandbox.Attempt
	}
	return cmp.Or(
		cmp.Compare(attemptA, attemptB),
		cmp.Compare(a.sandboxCreatedAt(), b.sandboxCreatedAt()),
		cmp.Compare(a.sandboxID(), b.sandboxID()),
	)
}
