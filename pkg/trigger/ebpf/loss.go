package ebpf

import "time"

// lossEvery is how long the count of lost records may go unread while records come without a
// break.
const lossEvery = time.Second

// lossCheck decides when to read the count of lost records and whether it is news. The zero
// value has read 0.
type lossCheck struct {
	last  time.Time
	count uint64
}

// due reports whether to read the count now: at the end of each burst and not at each record of
// it, because one signal says all; but a host that is too busy for bursts to end is the
// one that loses records.
func (c *lossCheck) due(now time.Time, pending bool) bool {
	if pending && now.Sub(c.last) < lossEvery {
		return false
	}
	c.last = now
	return true
}

// grew reports whether there are more than at the last reading.
func (c *lossCheck) grew(count uint64) bool {
	grew := count != c.count
	c.count = count
	return grew
}
