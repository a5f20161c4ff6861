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
	// until is how long the short period is kept though all sources work.
	until time.Time

	announced map[announcement]struct{}
	ring      []announcement
	next      int
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
		announced: make(map[announcement]struct{}),
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
	if _, known := p.announced[a]; known {
		return
	}
	p.announced[a] = struct{}{}
	if len(p.ring) < rememberAnnounced {
		p.ring = append(p.ring, a)
		return
	}
	delete(p.announced, p.ring[p.next])
	p.ring[p.next] = a
	p.next = (p.next + 1) % rememberAnnounced
}

// found notes a start or exit that a relist of everything found.
func (p *period) found(a announcement, now time.Time) {
	if _, known := p.announced[a]; !known && !p.none && len(p.suspects) < rememberAnnounced {
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
