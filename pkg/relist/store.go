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
}

// StoreOptions configures a [Store]. The zero value works.
type StoreOptions struct {
	// Alive is asked before a running container or sandbox that a listing lacks is
	// taken for gone: does the kernel still show processes in its cgroup? A runtime
	// that has just been restarted may leave items out for a while although they
	// run. It is called with the store locked and must not call back. known is false
	// where the kernel cannot tell. Nil: never known.
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
	// AnomalyMissing: the runtime does not list a running item that the kernel
	// shows alive.
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

	mu      sync.Mutex
	gen     uint64
	pods    map[string]*podRecord
	items   map[string]*record
	removed removedIDs
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
		pods:  make(map[string]*podRecord),
		items: make(map[string]*record),
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
// it, and a pod it lacks is gone only if its record is older.
func (s *Store) Apply(o *Observation, emit func(PodChanges)) []PodChanges {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gen++
	stamp := o.At.Sub(s.base)

	for _, sb := range o.Sandboxes {
		s.noteSandbox(sb, o, stamp)
	}
	for _, c := range o.Containers {
		s.noteContainer(c, o, stamp)
	}

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

func (s *Store) noteSandbox(sb *runtimeapi.PodSandbox, o *Observation, stamp time.Duration) {
	if sb == nil {
		s.opts.OnAnomaly(AnomalyNilItem)
		return
	}
	if sb.Id == "" {
		s.opts.OnAnomaly(AnomalyEmptyID)
		return
	}
	st, ok := sandboxState(sb.State)
	if !ok {
		s.opts.OnAnomaly(AnomalyUnknownState)
	}
	if rec := s.items[sb.Id]; rec != nil {
		s.show(rec, st, stamp)
		return
	}

	pod, labelled := sandboxPod(sb)
	if sb.Metadata == nil {
		s.opts.OnAnomaly(AnomalyNilMetadata)
	}
	if o.PodUID != "" && pod.UID != o.PodUID || s.stale(sb.Id, pod.UID, stamp) {
		return
	}
	p := s.pod(pod)
	p.labelled = labelled && (p.labelled || len(p.records) == 0)
	rec := newSandboxRecord(sb)
	s.add(p, rec)
	s.show(rec, st, stamp)
	s.rehome(rec)
}

func (s *Store) noteContainer(c *runtimeapi.Container, o *Observation, stamp time.Duration) {
	if c == nil {
		s.opts.OnAnomaly(AnomalyNilItem)
		return
	}
	if c.Id == "" {
		s.opts.OnAnomaly(AnomalyEmptyID)
		return
	}
	st, ok := containerState(c.State)
	if !ok {
		s.opts.OnAnomaly(AnomalyUnknownState)
	}
	if rec := s.items[c.Id]; rec != nil {
		s.show(rec, st, stamp)
		return
	}

	if c.Metadata == nil {
		s.opts.OnAnomaly(AnomalyNilMetadata)
	}
	home := s.items[c.PodSandboxId]
	if home != nil && home.container != nil {
		home = nil // not a sandbox's ID after all
	}
	pod := containerPod(c, home)
	if o.PodUID != "" && pod.UID != o.PodUID || s.stale(c.Id, pod.UID, stamp) {
		return
	}
	rec := newContainerRecord(c, home)
	s.add(s.pod(pod), rec)
	s.show(rec, st, stamp)
}

// stale reports whether an item that has no record must be left out: a later
// observation has been applied to its pod, or has found the item gone.
func (s *Store) stale(id, uid string, stamp time.Duration) bool {
	if p := s.pods[uid]; p != nil && p.stamp > stamp {
		return true
	}
	at, gone := s.removed.at(id)
	if !gone {
		return false
	}
	if at >= stamp {
		return true
	}
	s.removed.forget(id)
	s.opts.OnAnomaly(AnomalyReappeared)
	return false
}

// show notes that the observation being applied shows rec in state st. Of two
// entries with one ID the first counts.
func (s *Store) show(rec *record, st state, stamp time.Duration) {
	if rec.gen == s.gen {
		s.opts.OnAnomaly(AnomalyDuplicateID)
		return
	}
	rec.gen, rec.next = s.gen, st
	p := rec.pod
	if p.stamp > stamp {
		return
	}
	if p.gen != s.gen {
		p.gen, p.seen = s.gen, 0
	}
	p.seen++
	if rec.state != st || rec.missingSince != 0 {
		p.dirty = true
	}
}

// finishPod makes the changes of one pod once all of the observation was noted.
func (s *Store) finishPod(p *podRecord, o *Observation, stamp time.Duration) []Change {
	if p.stamp > stamp {
		return nil
	}
	p.stamp = stamp
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
			rec.missingSince = 0
		} else if s.held(rec, stamp) {
			continue
		}
		steps = s.table.diff(rec, next, steps)
		rec.state = next
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
// was, because it ran and the kernel shows that it still does.
func (s *Store) held(rec *record, stamp time.Duration) bool {
	if rec.state != running {
		return false
	}
	if rec.missingSince != 0 && stamp-rec.missingSince > s.opts.MissingGrace {
		return false
	}
	if alive, known := s.opts.Alive(rec.id); !known || !alive {
		return false
	}
	if rec.missingSince == 0 {
		rec.missingSince = stamp
		s.opts.OnAnomaly(AnomalyMissing)
	}
	return true
}

func (s *Store) dropAbsent(p *podRecord, stamp time.Duration) {
	p.records = slices.DeleteFunc(p.records, func(rec *record) bool {
		if rec.state != absent {
			return false
		}
		delete(s.items, rec.id)
		s.removed.add(rec.id, stamp)
		return true
	})
	if len(p.records) == 0 {
		delete(s.pods, p.pod.UID)
	}
}

func (s *Store) pod(pod event.Pod) *podRecord {
	p := s.pods[pod.UID]
	if p == nil {
		p = &podRecord{pod: pod}
		s.pods[pod.UID] = p
	} else if p.pod.Name == "" && pod.Name != "" {
		p.pod = pod
	}
	return p
}

func (s *Store) add(p *podRecord, rec *record) {
	rec.pod = p
	p.records = append(p.records, rec)
	s.items[rec.id] = rec
}

// rehome moves containers that were listed before their sandbox, and so stood
// for themselves, to the pod that the sandbox says.
func (s *Store) rehome(sandbox *record) {
	from := s.pods[sandbox.id]
	if from == nil || from == sandbox.pod {
		return
	}
	delete(s.pods, sandbox.id)
	to := sandbox.pod
	for _, rec := range from.records {
		rec.pod, rec.home, rec.sandbox = to, sandbox, sandbox.sandbox
		to.records = append(to.records, rec)
	}
	if from.gen == s.gen {
		to.seen += from.seen
	}
	to.dirty = to.dirty || from.dirty
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
		Detection: event.Detection{ObservedAt: at},
	}
	if rec.createdAt > 0 {
		c.CreatedAt = time.Unix(0, rec.createdAt)
	}
	return c
}

// sandboxPod says which pod a sandbox belongs to, and whether it carries the
// kubelet's label that says the same.
func sandboxPod(sb *runtimeapi.PodSandbox) (pod event.Pod, labelled bool) {
	pod = event.Pod{
		UID:       sb.GetMetadata().GetUid(),
		Namespace: cmp.Or(sb.GetMetadata().GetNamespace(), sb.Labels[labelPodNamespace]),
		Name:      cmp.Or(sb.GetMetadata().GetName(), sb.Labels[labelPodName]),
	}
	label := sb.Labels[labelPodUID]
	pod.UID = cmp.Or(pod.UID, label, sb.Id)
	return pod, label == pod.UID
}

// containerPod says which pod a container belongs to: its sandbox's; else the
// one its label names; else it stands for itself under its sandbox's ID.
func containerPod(c *runtimeapi.Container, home *record) event.Pod {
	if home != nil {
		return home.pod.pod
	}
	return event.Pod{
		UID:       cmp.Or(c.Labels[labelPodUID], c.PodSandboxId, c.Id),
		Namespace: c.Labels[labelPodNamespace],
		Name:      c.Labels[labelPodName],
	}
}
