package relist

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Observation is what one listing showed.
type Observation struct {
	// At is when it was begun: before the first RPC. It must carry Go's monotonic
	// reading, so that a step of the wall clock reorders nothing.
	At time.Time
	// PodUID is the pod it is about; empty for all pods.
	PodUID     string
	Sandboxes  []*runtimeapi.PodSandbox
	Containers []*runtimeapi.Container

	// begun is the store's generation when the observation was begun; 0 when no
	// other was applied since. What was listed may be older than what an observation
	// applied meanwhile showed, whichever was begun first.
	begun uint64
}

// StoreOptions configures a [Store]. The zero value works.
type StoreOptions struct {
	// Alive is asked before a container or sandbox that a listing lacks, and that
	// had not exited, is taken for gone: does the kernel still show processes in its
	// cgroup? A runtime that has just been restarted may leave items out for a while
	// although they run. It is called with the store locked and must not call back.
	// known is false where the kernel cannot tell. Nil: never known.
	Alive func(id string) (alive, known bool)
	// MissingGrace bounds how long an item is held that the kernel shows alive
	// and the runtime does not list. 0 means a minute.
	MissingGrace time.Duration
	// OnAnomaly is told of things in a listing that should not be there. It is
	// called with the store locked and must not call back.
	OnAnomaly func(Anomaly)
}

// Anomaly names something in a listing that should not be there. It is survived,
// counted, and makes no event.
type Anomaly string

// The anomalies.
const (
	AnomalyNilItem      Anomaly = "nil_item"
	AnomalyEmptyID      Anomaly = "empty_id"
	AnomalyNilMetadata  Anomaly = "nil_metadata"
	AnomalyDuplicateID  Anomaly = "duplicate_id"
	AnomalyUnknownState Anomaly = "unknown_state"
	// AnomalyInvalidUTF8: a name or an image is no valid UTF-8 and is told with
	// U+FFFD in place of what is wrong; an item whose ID is not is left out.
	AnomalyInvalidUTF8 Anomaly = "invalid_utf8"
	// AnomalyMissing: the runtime does not list an item that the kernel shows alive.
	AnomalyMissing Anomaly = "missing_but_alive"
	// AnomalyReappeared: an item is listed again after its removal was told.
	AnomalyReappeared Anomaly = "reappeared"
)

// Store holds the records: the last known state of every sandbox and container,
// by pod. It is safe for concurrent use; observations may be applied in any
// order.
type Store struct {
	opts  StoreOptions
	table *transitionIndex
	base  time.Time

	mu    sync.Mutex
	gen   uint64
	pods  map[string]*podRecord
	items index
	// orphans are the containers whose sandbox no listing has shown yet, by the
	// sandbox's ID.
	orphans map[string][]*record
	// missing holds the stamp of the first observation that lacked an item although
	// the kernel showed it alive.
	missing map[*record]time.Duration
	removed removedIDs
	texts   texts
	steps   []step
}

// NewStore returns an empty store.
func NewStore(opts StoreOptions) *Store {
	if opts.MissingGrace <= 0 {
		opts.MissingGrace = time.Minute
	}
	if opts.Alive == nil {
		opts.Alive = func(string) (bool, bool) { return false, false }
	}
	if opts.OnAnomaly == nil {
		opts.OnAnomaly = func(Anomaly) {}
	}
	return &Store{
		opts:  opts,
		table: indexTransitions(),
		// An hour back, so that an observation begun before the store was made still
		// has a positive stamp.
		base:  time.Now().Add(-time.Hour),
		gen:   1, // 0 stands for none
		pods:  make(map[string]*podRecord),
		items: newIndex(),

		orphans: make(map[string][]*record),
		missing: make(map[*record]time.Duration),
	}
}

// PodChanges are the changes of one pod in the order in which they are to be
// told.
type PodChanges struct {
	Pod     event.Pod
	Changes []Change
}

// Apply brings the store up to an observation and returns what changed, sorted by
// pod UID. emit, when not nil, is called with the same while the store is still
// locked, so that changes of one pod can be queued in the order of application.
//
// The observation counts for a pod only if none begun later has been applied to
// it, and a pod it lacks is gone only if its record is older. Where another was
// applied while this one was under way it can't be known which of the two saw the
// earlier state; then nothing goes back to an earlier state, and what the other
// one brought in is not taken for gone.
func (s *Store) Apply(o *Observation, emit func(PodChanges)) []PodChanges {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gen++
	stamp := o.At.Sub(s.base)

	for _, sb := range o.Sandboxes {
		s.noteSandbox(sb, o, stamp)
	}
	s.noteContainers(o, stamp)

	var out []PodChanges
	finish := func(p *podRecord) {
		if changes := s.finishPod(p, o, stamp); len(changes) > 0 {
			out = append(out, PodChanges{Pod: p.pod, Changes: changes})
		}
	}
	if o.PodUID == "" {
		for _, p := range s.pods {
			finish(p)
		}
	} else if p := s.pods[o.PodUID]; p != nil {
		finish(p)
	}
	slices.SortFunc(out, func(a, b PodChanges) int { return cmp.Compare(a.Pod.UID, b.Pod.UID) })
	if emit != nil {
		for _, pc := range out {
			emit(pc)
		}
	}
	return out
}

// finishPod makes the changes of one pod once all of the observation was noted.
func (s *Store) finishPod(p *podRecord, o *Observation, stamp time.Duration) []Change {
	if p.stamp > stamp {
		return nil
	}
	overlapped := o.begun != 0 && p.applied > o.begun
	p.stamp, p.applied = stamp, s.gen
	if p.gen != s.gen {
		p.gen, p.seen = s.gen, 0
	}
	if !p.dirty && p.seen == len(p.records) {
		return nil
	}
	p.dirty = false

	steps := s.steps[:0]
	for _, rec := range p.records {
		next := absent
		if rec.gen == s.gen {
			next = rec.next
			delete(s.missing, rec)
			if overlapped && next.behind(rec.state) {
				continue
			}
		} else if overlapped && rec.added > o.begun || s.held(rec, stamp) {
			continue
		}
		told := len(steps)
		steps = s.table.diff(rec, next, steps)
		if rec.relabelled && len(steps) == told {
			// No event; but whoever keeps the sandbox is to have it as it is now.
			steps = append(steps, step{rec: rec, verb: changed, from: rec.state, to: next})
		}
		rec.state, rec.relabelled = next, false
	}
	sortSteps(steps)
	changes := make([]Change, len(steps))
	for i, st := range steps {
		changes[i] = st.change(o.At)
	}
	clear(steps)
	s.steps = steps[:0]
	s.dropAbsent(p, stamp)
	return changes
}

// held reports whether an item that the observation lacks is to be kept as it
// was, because it had not exited and the kernel shows that it has not.
func (s *Store) held(rec *record, stamp time.Duration) bool {
	switch {
	case rec.state == exited || rec.state == absent:
		return false
	case s.missing[rec] != 0 && stamp-s.missing[rec] > s.opts.MissingGrace:
		return false
	case !s.alive(rec):
		return false
	}
	if s.missing[rec] == 0 {
		s.missing[rec] = stamp
		s.opts.OnAnomaly(AnomalyMissing)
	}
	return true
}

// alive asks the kernel about an item. A sandbox lives as long as a container of
// it does: not every runtime gives a sandbox processes of its own.
func (s *Store) alive(rec *record) bool {
	if alive, known := s.opts.Alive(rec.id()); known {
		return alive
	}
	return rec.container == nil && slices.ContainsFunc(rec.pod.records, func(c *record) bool {
		if c.container == nil || c.home != rec || c.state == exited || c.state == absent || c.gen == s.gen && c.next == exited {
			return false
		}
		alive, known := s.opts.Alive(c.id())
		return alive && known
	})
}

func (s *Store) dropAbsent(p *podRecord, stamp time.Duration) {
	p.records = slices.DeleteFunc(p.records, func(rec *record) bool {
		if rec.state != absent {
			return false
		}
		s.items.remove(rec.id())
		delete(s.missing, rec)
		s.disown(rec)
		s.removed.add(rec.id(), stamp, s.gen)
		return true
	})
	if len(p.records) == 0 {
		delete(s.pods, p.pod.UID)
		s.removed.add(p.pod.UID, stamp, s.gen)
	}
}

// change turns a step into what is handed on; details come later.
func (st step) change(at time.Time) Change {
	rec := st.rec
	c := Change{
		Type:      st.verb.eventType(rec.container == nil),
		Pod:       rec.pod.pod,
		Sandbox:   rec.sandbox,
		Container: rec.container,
		From:      st.from.event(),
		To:        st.to.event(),
		Inferred:  st.verb == startedUnseen,
		Detection: event.Detection{ObservedAt: at.UTC()},
	}
	if rec.createdAt > 0 {
		c.CreatedAt = time.Unix(0, rec.createdAt).UTC()
	}
	return c
}
