package view

import "time"

// rateSpan is the time that a rate is of, in seconds.
const rateSpan = 10

// rate counts what happened in each of the last seconds.
type rate struct {
	counts [rateSpan]int
	second int64 // the last one counted in
}

func (r *rate) add(now time.Time) {
	r.forward(now)
	r.counts[r.second%rateSpan]++
}

// perSecond is the mean of the last rateSpan seconds.
func (r *rate) perSecond(now time.Time) float64 {
	r.forward(now)
	sum := 0
	for _, n := range r.counts {
		sum += n
	}
	return float64(sum) / rateSpan
}

// forward empties the seconds that nothing was counted in.
func (r *rate) forward(now time.Time) {
	second := now.Unix()
	if second <= r.second { // or the clock was set back
		return
	}
	for s := max(r.second+1, second-rateSpan+1); s <= second; s++ {
		r.counts[s%rateSpan] = 0
	}
	r.second = second
}
