package stats

// Periodic is what theory says of a generator that has nothing but a period: it
// lists at moments that have nothing to do with the containers', Period apart from
// the begin of one listing to the begin of the next. Where the pause counts from the
// end of a listing to the begin of the next, as in the kubelet, Period is the pause
// plus the time that a listing takes.
//
// All times are in the caller's unit. What is told is told delay after the listing
// began; callers add that.
type Periodic struct{ Period float64 }

// Life is how long a container could be seen.
type Life struct {
	// Running is from its start to its exit, Listed from when it could first be listed
	// to its removal: at least Running.
	Running, Listed float64
}

// Missed returns the probability that no listing falls into a time of length visible:
// 1 - visible/period, or 0 where it is longer than the period.
func (p Periodic) Missed(visible float64) float64 {
	return max(0, 1-visible/p.Period)
}

// StartCDF returns the probability that a start is told within x, where it can be told
// as long as the container is visible after it. The latency is uniform over the
// period, cut off at visible.
func (p Periodic) StartCDF(x, visible float64) float64 {
	return max(0, min(x, visible, p.Period)) / p.Period
}

// ExitCDF returns the probability that an exit is told within x. The first listing
// after the exit falls anywhere in a period. It tells the exit if the container is
// still listed then, or if the listing before had shown it: the latency u is at most
// what is left to the removal, or at least the period less the time listed before
// the exit.
func (p Periodic) ExitCDF(x float64, life Life) float64 {
	after := max(0, life.Listed-life.Running)
	fromSeen := max(0, p.Period-life.Running)
	x = max(0, min(x, p.Period))
	if fromSeen <= after {
		return x / p.Period
	}
	return (min(x, after) + max(0, x-fromSeen)) / p.Period
}
