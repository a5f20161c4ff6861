package merge

// Stats are a log's figures at one moment, for metrics and for people.
type Stats struct {
	// Token is the place after the last event; its sequence is the number of
	// events so far, those of the epochs before included.
	Token Token
	// Oldest is the sequence of the first event that the journal still has, one
	// more than the last event's when it is empty.
	Oldest uint64
	// OldestToken is the place before that event: the earliest to resume from.
	OldestToken Token
	// JournalEvents and JournalBytes are what the journal holds, the bytes about.
	JournalEvents int
	JournalBytes  int64
	// Pods, Sandboxes and Containers are those a snapshot would show.
	Pods, Sandboxes, Containers int
	// Removed is how many removed IDs are remembered.
	Removed int
	// Watchers are those open, Expired how often a watcher was told so.
	Watchers int
	Expired  uint64
	// Suppressed counts the changes that the law forbade to tell. Every reason is
	// in it.
	Suppressed map[Reason]uint64
}

// Stats returns the figures of now.
func (l *Log) Stats() Stats {
	s := Stats{
		Watchers:   int(l.watchers.Load()),
		Expired:    l.expired.Load(),
		Suppressed: make(map[Reason]uint64, reasons-1),
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	s.Token = l.Token()
	s.Oldest = l.journal.oldest
	s.OldestToken = l.epochs.token(s.Oldest - 1)
	s.JournalEvents = int(l.journal.last + 1 - l.journal.oldest)
	s.JournalBytes = l.journal.bytes
	s.Pods = len(l.model.pods)
	s.Sandboxes = len(l.model.sandboxes)
	s.Containers = len(l.model.containers)
	s.Removed = len(l.model.removed.set)
	for _, why := range Reasons() {
		s.Suppressed[why] = l.suppressed[why]
	}
	return s
}
