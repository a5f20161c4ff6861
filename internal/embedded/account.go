package embedded

import runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

// Moment is something that befalls a container, as [Options.Account] is told it.
type Moment string

// The moments, in the order in which they come, save that the CRI may show RUNNING
// after the workload has ended.
const (
	// ShownCreated: from now on the CRI shows the container.
	ShownCreated Moment = "shown-created"
	// Began: its workload began to run.
	Began Moment = "began"
	// ShownRunning: from now on the CRI shows it RUNNING.
	ShownRunning Moment = "shown-running"
	// Ended: its last process ended.
	Ended Moment = "ended"
	// ShownExited: from now on the CRI shows it EXITED.
	ShownExited Moment = "shown-exited"
	// ShownRemoved: the CRI shows it no more.
	ShownRemoved Moment = "shown-removed"
)

// tell tells the account. Runtime.op is held, but not Runtime.mu: who lists does not
// wait for the account.
func (r *Runtime) tell(id string, what Moment) {
	if r.account != nil {
		r.account(id, what)
	}
}

func shown(state runtimeapi.ContainerState) Moment {
	switch state {
	case runtimeapi.ContainerState_CONTAINER_CREATED:
		return ShownCreated
	case runtimeapi.ContainerState_CONTAINER_RUNNING:
		return ShownRunning
	default:
		return ShownExited
	}
}
