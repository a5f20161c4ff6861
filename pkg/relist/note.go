package relist

import (
	"cmp"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// noteSandbox takes in that the observation being applied shows a sandbox.
func (s *Store) noteSandbox(sb *runtimeapi.PodSandbox, o *Observation, stamp time.Duration) {
	if sb == nil {
		s.opts.OnAnomaly(AnomalyNilItem)
		return
	}
	st, ok := sandboxState(sb.State)
	if !ok {
		s.opts.OnAnomaly(AnomalyUnknownState)
	}
	if rec := s.items.get(sb.Id); rec != nil {
		if s.show(rec, rec.container == nil, st, o, stamp) && rec.restored {
			s.refreshSandbox(rec, sb)
		}
		return
	}
	if !s.validID(sb.Id) {
		return
	}
	pod, labelled := s.sandboxPod(sb)
	if o.PodUID != "" && pod.UID != o.PodUID || s.stale(sb.Id, pod.UID, o, stamp) || s.orphansNewer(sb.Id, stamp) {
		return
	}
	if sb.Metadata == nil {
		s.opts.OnAnomaly(AnomalyNilMetadata)
	}
	rec := s.newSandboxRecord(sb, labelled)
	s.add(s.pod(pod), rec)
	s.show(rec, true, st, o, stamp)
	s.adopt(rec)
}

// noteContainers takes in the containers that the observation being applied shows.
func (s *Store) noteContainers(o *Observation, stamp time.Duration) {
	var ids [lookupBatch]string
	var recs [lookupBatch]*record
	for batch := range slices.Chunk(o.Containers, lookupBatch) {
		for i, c := range batch {
			ids[i] = c.GetId()
		}
		s.items.getAll(ids[:len(batch)], recs[:])
		for i, c := range batch {
			s.noteContainer(c, recs[i], o, stamp)
		}
	}
}

// noteContainer takes in that the observation being applied shows a container, whose
// record is known unless the observation itself has just brought it in.
func (s *Store) noteContainer(c *runtimeapi.Container, rec *record, o *Observation, stamp time.Duration) {
	if c == nil {
		s.opts.OnAnomaly(AnomalyNilItem)
		return
	}
	st, ok := containerState(c.State)
	if !ok {
		s.opts.OnAnomaly(AnomalyUnknownState)
	}
	if rec == nil {
		rec = s.items.get(c.Id)
	}
	if rec != nil {
		if s.show(rec, rec.container != nil, st, o, stamp) && rec.restored {
			s.refreshContainer(rec, c)
		}
		return
	}
	if !s.validID(c.Id) {
		return
	}
	home := s.items.get(c.PodSandboxId)
	if home != nil && home.container != nil {
		home = nil // not a sandbox's ID after all
	}
	pod := s.containerPod(c, home)
	if o.PodUID != "" && pod.UID != o.PodUID || s.stale(c.Id, pod.UID, o, stamp) {
		return
	}
	if c.Metadata == nil {
		s.opts.OnAnomaly(AnomalyNilMetadata)
	}
	rec = s.newContainerRecord(c, home)
	s.add(s.pod(pod), rec)
	if home == nil && rec.sandbox != nil {
		s.orphans[rec.sandbox.ID] = append(s.orphans[rec.sandbox.ID], rec)
	}
	s.show(rec, true, st, o, stamp)
}

// show notes that the observation being applied shows rec in state st. Of two
// entries with one ID the first counts, and an ID is either a sandbox's or a
// container's: sameKind is false when the entry is of the other kind. What does not
// count, for that reason or because it is out of date, returns false.
func (s *Store) show(rec *record, sameKind bool, st state, o *Observation, stamp time.Duration) bool {
	if rec.gen == s.gen || !sameKind {
		s.opts.OnAnomaly(AnomalyDuplicateID)
		return false
	}
	p := rec.pod
	if p.stamp > stamp || o.PodUID != "" && p.pod.UID != o.PodUID {
		return false
	}
	rec.gen, rec.next = s.gen, st
	if p.gen != s.gen {
		p.gen, p.seen = s.gen, 0
	}
	p.seen++
	if rec.state != st || len(s.missing) > 0 && s.missing[rec] != 0 {
		p.dirty = true
	}
	return true
}

// validID refuses an ID that no event can carry and no runtime could be asked
// about.
func (s *Store) validID(id string) bool {
	switch {
	case id == "":
		s.opts.OnAnomaly(AnomalyEmptyID)
		return false
	case !utf8.ValidString(id):
		s.opts.OnAnomaly(AnomalyInvalidUTF8)
		return false
	default:
		return true
	}
}

// stale reports whether an item that has no record must be left out: a later
// observation has been applied to its pod, or one that was begun later or applied
// meanwhile has found the item gone.
func (s *Store) stale(id, uid string, o *Observation, stamp time.Duration) bool {
	if p := s.pods[uid]; p != nil {
		if p.stamp > stamp {
			return true
		}
	} else if at, gone := s.removed.at(uid); gone && at.stamp > stamp {
		return true
	}
	at, gone := s.removed.at(id)
	if !gone {
		return false
	}
	if at.stamp >= stamp || o.begun != 0 && at.gen > o.begun {
		return true
	}
	s.removed.forget(id)
	s.opts.OnAnomaly(AnomalyReappeared)
	return false
}

// pod returns the record of a pod, made if there is none.
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
	rec.added = s.gen
	s.items.put(rec.id(), rec)
}

// orphansNewer reports whether a container that was listed before its sandbox has
// been observed later than stamp. Taking the sandbox in would then put the
// container into a pod to which the older observation still applies.
func (s *Store) orphansNewer(sandboxID string, stamp time.Duration) bool {
	return slices.ContainsFunc(s.orphans[sandboxID], func(c *record) bool { return c.pod.stamp > stamp })
}

// adopt gives the containers that were listed before their sandbox to it, and
// moves them to its pod if they had to be counted to another.
func (s *Store) adopt(sandbox *record) {
	to := sandbox.pod
	for _, rec := range s.orphans[sandbox.id()] {
		rec.home, rec.sandbox = sandbox, sandbox.sandbox
		from := rec.pod
		if from == to {
			continue
		}
		from.remove(rec)
		if len(from.records) == 0 {
			delete(s.pods, from.pod.UID)
		}
		rec.pod, rec.added = to, s.gen
		to.records = append(to.records, rec)
		from.dirty, to.dirty = true, true
	}
	delete(s.orphans, sandbox.id())
}

// disown forgets a container that is gone and never got a home.
func (s *Store) disown(rec *record) {
	if rec.home != nil || rec.sandbox == nil {
		return
	}
	id := rec.sandbox.ID
	left := slices.DeleteFunc(s.orphans[id], func(r *record) bool { return r == rec })
	if len(left) == 0 {
		delete(s.orphans, id)
	} else {
		s.orphans[id] = left
	}
}

// sandboxPod says which pod a sandbox belongs to, and whether it carries the
// kubelet's label that says the same.
func (s *Store) sandboxPod(sb *runtimeapi.PodSandbox) (pod event.Pod, labelled bool) {
	uid := cmp.Or(sb.GetMetadata().GetUid(), sb.Labels[labelPodUID], sb.Id)
	return event.Pod{
		UID:       s.text(uid),
		Namespace: s.text(cmp.Or(sb.GetMetadata().GetNamespace(), sb.Labels[labelPodNamespace])),
		Name:      s.text(cmp.Or(sb.GetMetadata().GetName(), sb.Labels[labelPodName])),
	}, sb.Labels[labelPodUID] == uid
}

// containerPod says which pod a container belongs to: its sandbox's; else the
// one its label names; else it stands for itself under its sandbox's ID.
func (s *Store) containerPod(c *runtimeapi.Container, home *record) event.Pod {
	if home != nil {
		return home.pod.pod
	}
	return event.Pod{
		UID:       s.text(cmp.Or(c.Labels[labelPodUID], c.PodSandboxId, c.Id)),
		Namespace: s.text(c.Labels[labelPodNamespace]),
		Name:      s.text(c.Labels[labelPodName]),
	}
}
