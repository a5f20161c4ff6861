package trigger

import "time"

// Outcome says what became of a signal.
type Outcome string

// The outcomes.
const (
	// OutcomeSettled: a look found what it announced.
	OutcomeSettled Outcome = "settled"
	// OutcomeAlready: the records showed it before, or an earlier signal of the same
	// kind announced it and is being followed, or it announced nothing.
	OutcomeAlready Outcome = "already"
	// OutcomeOpen: it was not found within the budget and is left to the period.
	OutcomeOpen Outcome = "open"
	// OutcomeForeign: the container is not one that this runtime lists.
	OutcomeForeign Outcome = "foreign"
)

// Observer is told what the scheduler sees and decides, for metrics. Its methods
// are called from the scheduler's goroutine and must not block.
type Observer interface {
	Signal(Signal)
	// Settled tells what became of what a signal about a container announced, once a
	// signal, with how long after it and the number of looks until then. Signals to
	// relist everything announce nothing that could be settled; those about a pod
	// neither, and are told of only where they made for no look.
	Settled(source SourceName, kind Kind, outcome Outcome, after time.Duration, looks int)
	// Missed tells of a container that the kernel saw run and that was never listed.
	// It is told once a container.
	Missed(containerID string)
	// Unannounced tells how many starts and exits relists of everything found that no
	// signal announced, before or shortly after.
	Unannounced(n int)
	// Period tells the period in force, when it changes.
	Period(time.Duration)
}

// NopObserver does nothing. Embed it to implement only some of [Observer].
type NopObserver struct{}

// Signal implements [Observer].
func (NopObserver) Signal(Signal) {}

// Settled implements [Observer].
func (NopObserver) Settled(SourceName, Kind, Outcome, time.Duration, int) {}

// Missed implements [Observer].
func (NopObserver) Missed(string) {}

// Unannounced implements [Observer].
func (NopObserver) Unannounced(int) {}

// Period implements [Observer].
func (NopObserver) Period(time.Duration) {}
