package trigger

import (
	"math"
	"time"
)

// bucket bounds the rate of early looks, and with it what they cost the runtime:
// a look that takes it longer costs more tokens.
type bucket struct {
	rate, burst float64 // tokens per second, and at most
	tokens      float64
	at          time.Time
	// paid is until when looking has been paid for.
	paid time.Time
}

// tokenWorth is the time of looking that one token pays for. At the default rate
// early looks are under way for no more than half of the time, however many there are
// at once: four, or one at everything. How long one takes says more of how busy the
// host is than of what it costs the runtime. So it must not take much: on a host whose
// processors are all busy, what is looked at too late is missed.
const tokenWorth = 5 * time.Millisecond

func newBucket(rate, burst float64, now time.Time) bucket {
	return bucket{rate: rate, burst: burst, tokens: burst, at: now}
}

func (b *bucket) fill(now time.Time) {
	if dt := now.Sub(b.at); dt > 0 {
		b.tokens = min(b.burst, b.tokens+dt.Seconds()*b.rate)
		b.at = now
	}
}

// take pays for starting a look; false when there is not enough.
func (b *bucket) take(now time.Time) bool {
	b.fill(now)
	if b.tokens < 1 {
		return false
	}
	b.tokens--
	return true
}

// charge pays the rest once it is known how long a look took that was begun at. Looks
// under way at the same time share what they cost. The bucket may go into debt, by no
// more than half a second's worth: as long as that nothing is looked at then.
func (b *bucket) charge(at time.Time, took time.Duration) {
	end := at.Add(took)
	if !end.After(b.paid) {
		return
	}
	took = end.Sub(later(at, b.paid))
	b.paid = end
	if extra := float64(took)/float64(tokenWorth) - 1; extra > 0 {
		b.tokens = min(b.tokens, max(b.tokens-extra, -b.rate/2))
	}
}

// readyMost bounds how far ahead ready looks: with a rate of next to nothing, the
// wait would overflow.
const readyMost = time.Hour

// ready is when there will be a token: now, or some time after now. Where that is
// very long, it is when to ask again.
func (b *bucket) ready(now time.Time) time.Time {
	b.fill(now)
	if b.tokens >= 1 {
		return now
	}
	// Rounded up, and a little more for what adding up fractions loses: a time at
	// which the token still lacks its last billionth would make the loop spin.
	wait := math.Ceil((1-b.tokens)/b.rate*float64(time.Second)) + 1000
	return now.Add(time.Duration(min(wait, float64(readyMost))))
}

// cost is what a kind of look has lately cost, in tokens; the zero value knows of none.
type cost struct{ mean float64 }

// learn takes in how long a look took. The last few count.
func (c *cost) learn(took time.Duration) {
	tokens := max(float64(took)/float64(tokenWorth), 1)
	if c.mean == 0 {
		c.mean = tokens
		return
	}
	c.mean += (tokens - c.mean) / 4
}

// tokens is what the next look is likely to cost.
func (c *cost) tokens() float64 { return max(c.mean, 1) }
