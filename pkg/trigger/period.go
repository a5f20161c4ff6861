package trigger

import "time"

// How long the period stays short after the triggers failed to prove themselves.
const (
	degradedAfterLost  = 30 * time.Second
	degradedAfterUnfit = time.Minute
	// announceGrace is how long after a relist of everything found a change a signal
	// may still come in that announces it.
	announceGrace = time.Second
	// rememberAnnounced is how many announcements are remembered. A change that the
	// periodic relist finds was announced seconds ago.
	rememberAnnounced = 8192
)

// period decides how long to wait between relists of everything.
type period struct {
	long, short time.Duration
	// down holds the wanted sources that do not work; none: no source is wanted.
	down map[SourceName]bool
	none bool
	// up is when a source last came up.
	up time.Time
	// until is how long the short period is kept though all sources work.
	until time.Time

	announced recent[announcement]
	// suspects are changes that a relist of everything found and no signal has
	// announced yet, with the time by which one must have come.
	suspects map[announcement]time.Time
}

// announcement names a change of a container that a signal should announce.
type announcement struct {
	id     string
	expect expectation
}

func newPeriod(long, short time.Duration, wanted []SourceName) period {
	p := period{
		long: long, short: short,
		down:      make(map[SourceName]bool),
		none:      len(wanted) == 0,
		announced: newRecent[announcement](rememberAnnounced),
		suspects:  make(map[announcement]time.Time),
	}
	for _, name := range wanted {
		p.down[name] = true
	}
	return p
}

// current is the gap to keep now. Without any source there is nothing to degrade
// from.
func (p *period) current(now time.Time) time.Duration {
	if !p.none && (len(p.down) > 0 || now.Before(p.until)) {
		return min(p.short, p.long)
	}
	return p.long
}

func (p *period) degrade(now time.Time, d time.Duration) {
	p.until = later(p.until, now.Add(d))
}

// announce notes that a signal announced a change.
func (p *period) announce(a announcement) {
	delete(p.suspects, a)
	p.announced.add(a)
}

// proven reports whether all that a look begun at a time finds should have been
// announced. A source that has just come up told nothing of what was in the making
// before, and that may take as long to show as any announcement.
func (p *period) proven(at time.Time) bool {
	return len(p.down) == 0 && !at.Before(p.up.Add(settleBudget))
}

// found notes a start or exit that a relist of everything found.
func (p *period) found(a announcement, now time.Time) {
	if !p.announced.has(a) && !p.none && len(p.suspects) < rememberAnnounced {
		p.suspects[a] = now.Add(announceGrace)
	}
}

// judge shortens the period when a suspect's time is over, and says when to judge
// next; zero when there is nothing to judge.
func (p *period) judge(now time.Time) (unannounced int, next time.Time) {
	for a, by := range p.suspects {
		if !now.Before(by) {
			delete(p.suspects, a)
			unannounced++
		} else if next.IsZero() || by.Before(next) {
			next = by
		}
	}
	if unannounced > 0 {
		p.degrade(now, degradedAfterUnfit)
	}
	return unannounced, next
}
