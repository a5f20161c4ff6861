package embedded

import (
	"log/slog"
	"math/rand/v2"
	"time"
)

// Options configures a [Runtime]. The zero value works.
type Options struct {
	// Seed makes IDs and lags repeatable. With 0 every Runtime differs, so that a
	// consumer that remembers IDs from an earlier run is not led astray.
	Seed uint64
	// Lag is how far the CRI is behind the kernel. Its zero value is [RealisticLag].
	Lag Lag
	// Mirror is told what the kernel would show; nil for nobody.
	Mirror Mirror
	// Account is told what befalls containers, in order, right after it has: for who
	// must know the truth. It must be quick and must not call the runtime. Nil for nobody.
	Account func(id string, what Moment)
	// EventBuffer is how many events a subscriber of GetContainerEvents may be
	// behind before its stream is cut off; 0 means 1000.
	EventBuffer int
	// Version is what the runtime reports as its version; "" means "0.0.0".
	Version string
	// Logger gets what goes wrong with the mirror; nil discards it.
	Logger *slog.Logger
}

// Delay draws a duration. It is called by one goroutine at a time. A negative
// result counts as 0.
type Delay func(*rand.Rand) time.Duration

// Fixed always gives d.
func Fixed(d time.Duration) Delay {
	return func(*rand.Rand) time.Duration { return d }
}

// Uniform gives durations from low to below high, all equally likely.
func Uniform(low, high time.Duration) Delay {
	if high <= low {
		return Fixed(low)
	}
	return func(r *rand.Rand) time.Duration {
		return low + time.Duration(r.Int64N(int64(high-low)))
	}
}

// Lag says how long after the kernel the CRI shows a change. A nil field means
// the one of [RealisticLag].
type Lag struct {
	// Start runs from the exec of the workload until the container is RUNNING, or
	// the sandbox READY.
	Start Delay
	// Exit runs from the end of the last process until the container is EXITED,
	// or the sandbox NOTREADY. The cgroup is removed after three fifths of it.
	Exit Delay
	// Event runs from a state's becoming visible until its event is sent.
	Event Delay
}

// RealisticLag resembles what was measured on containerd 2.2: exec to RUNNING
// 3 ms in the median, exit to EXITED 24–30 ms, the event 0.3 ms after that.
func RealisticLag() Lag {
	return Lag{
		Start: Uniform(time.Millisecond, 5*time.Millisecond),
		Exit:  Uniform(5*time.Millisecond, 40*time.Millisecond),
		Event: Fixed(300 * time.Microsecond),
	}
}

// NoLag makes every change visible before the call that makes it returns, for
// tests that step through a history.
func NoLag() Lag {
	return Lag{Start: Fixed(0), Exit: Fixed(0), Event: Fixed(0)}
}

func (l Lag) withDefaults() Lag {
	def := RealisticLag()
	if l.Start == nil {
		l.Start = def.Start
	}
	if l.Exit == nil {
		l.Exit = def.Exit
	}
	if l.Event == nil {
		l.Event = def.Event
	}
	return l
}
