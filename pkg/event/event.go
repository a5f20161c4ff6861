package event

import "time"

// Type says what happened. A container passes through its four types in the
// order Created, Started, Died, Removed and through each at most once; a
// sandbox likewise through Started, Died, Removed.
type Type string

// The event types. ContainerStarted, ContainerDied, ContainerRemoved and
// PodSync are the kubelet's; the others are additions (see [Type.Kubelet]).
const (
	ContainerCreated Type = "ContainerCreated"
	ContainerStarted Type = "ContainerStarted"
	ContainerDied    Type = "ContainerDied"
	ContainerRemoved Type = "ContainerRemoved"

	SandboxStarted Type = "SandboxStarted"
	SandboxDied    Type = "SandboxDied"
	SandboxRemoved Type = "SandboxRemoved"

	// PodSync tells that a pod is worth looking at again although no state
	// changed: a container's details became readable after all, or a caller asked
	// for it with RequestReinspect. The latter is about the whole pod: it names no
	// container, and of the pod's sandboxes the newest.
	PodSync Type = "PodSync"
)

// Types returns all event types in the order in which they happen to a pod.
func Types() []Type {
	return []Type{
		SandboxStarted, ContainerCreated, ContainerStarted, ContainerDied,
		ContainerRemoved, SandboxDied, SandboxRemoved, PodSync,
	}
}

// Kubelet maps t to the type that the kubelet's generators give the same
// change; it is empty where they have none.
func (t Type) Kubelet() Type {
	switch t {
	case SandboxStarted:
		return ContainerStarted
	case SandboxDied:
		return ContainerDied
	case SandboxRemoved:
		return ContainerRemoved
	case ContainerCreated:
		return ""
	default:
		return t
	}
}

// State is what a listing says of a container or a sandbox.
type State string

// The states. A sandbox is running while the runtime calls it READY and exited
// when it calls it NOTREADY. Unknown stands for the runtime's own UNKNOWN and
// for every value this version does not know.
const (
	StateCreated     State = "created"
	StateRunning     State = "running"
	StateExited      State = "exited"
	StateUnknown     State = "unknown"
	StateNonExistent State = "non-existent"
)

// Pod names a pod. UID is what the runtime recorded as the pod's UID; a sandbox
// that was made without one stands for itself and its ID is used.
type Pod struct {
	UID       string `json:"uid"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
}

// Sandbox names a pod sandbox. A pod has several one after another when its
// sandbox is made anew.
type Sandbox struct {
	ID      string `json:"id"`
	Attempt uint32 `json:"attempt,omitempty"`
	// Labels and Annotations are the pod's, as the kubelet gave them to the sandbox
	// when it was made; what was changed since in the API server is not in them. The
	// kubelet's labels io.kubernetes.pod.name, .namespace and .uid are left out, since
	// the pod is named anyway. Read them, don't write to them: they are shared.
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// Container names a container. Attempt counts from 0 and grows each time the
// kubelet starts the container of that name again; every attempt has an ID of
// its own.
type Container struct {
	ID      string `json:"id"`
	Name    string `json:"name,omitempty"`
	Attempt uint32 `json:"attempt"`
	Image   string `json:"image,omitempty"`
}

// Status holds the details that a listing does not carry. They are the
// runtime's word: the times are its clock's, to the nanosecond where it keeps
// them so.
type Status struct {
	StartedAt  time.Time `json:"startedAt,omitzero"`
	FinishedAt time.Time `json:"finishedAt,omitzero"`
	// ExitCode is nil until the container has exited. A container that a signal
	// ended has 128 plus the signal's number, as runtimes report it.
	ExitCode *int32 `json:"exitCode,omitempty"`
	// Reason is why the container ended, in a word: Completed, Error, OOMKilled and
	// what else the runtime has.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Pid, CgroupPath and CgroupID are looked up when the start is told, and told
	// again with all that follows. They are left out where the runtime tells no pid,
	// or where the kernel did not show that process in the container's cgroup any
	// more: a number that another process may have by now is not told.
	//
	// Pid is the container's first process, in the PID namespace that the runtime
	// and the generator share.
	Pid int `json:"pid,omitempty"`
	// CgroupPath is the container's cgroup from the root of its hierarchy, such as
	// /kubepods/burstable/pod…/…: of the v2 one if the container is in it, else of v1's
	// memory or another one of v1's.
	CgroupPath string `json:"cgroupPath,omitempty"`
	// CgroupID is the number of that cgroup in the v2 hierarchy, as
	// bpf_get_current_cgroup_id returns it; 0 for a container that is in v1 alone.
	CgroupID uint64 `json:"cgroupId,omitempty"`
}

// StatusMissing says why an event has no details, or only those that were read
// earlier.
type StatusMissing string

// Why details are missing.
const (
	// StatusGone: the container was removed before its details could be read.
	StatusGone StatusMissing = "gone"
	// StatusLate: the runtime did not answer in time. A PodSync for the same
	// container follows when it does, unless the container is removed, or the
	// generator ends, before.
	StatusLate StatusMissing = "late"
	// StatusFailed: the runtime answered with an error. A PodSync for the same
	// container follows when it answers properly.
	StatusFailed StatusMissing = "failed"
)

// FoundBy says which kind of relist saw the change.
type FoundBy string

// The kinds of relist.
const (
	// FoundEarly: a relist that a trigger or a caller asked for. A PodSync with
	// details that came late has what the event had that lacked them.
	FoundEarly FoundBy = "early"
	// FoundPeriodic: the relist that comes round by itself.
	FoundPeriodic FoundBy = "periodic"
	// FoundStartup: the first successful relist of this process.
	FoundStartup FoundBy = "startup"
)

// Detection tells how and when a change was found. Trigger and SignalAt are
// present when a signal made the generator look; they explain an event and
// never order it.
type Detection struct {
	FoundBy    FoundBy   `json:"foundBy"`
	Trigger    string    `json:"trigger,omitempty"`
	SignalAt   time.Time `json:"signalAt,omitzero"`
	ObservedAt time.Time `json:"observedAt"`
}

// Event is one change, told once.
type Event struct {
	// Epoch names one numbering of events; Sequence grows by one within it.
	Epoch    string `json:"epoch"`
	Sequence uint64 `json:"sequence"`
	// ID is an idempotency key: the container's or sandbox's ID, a slash, the
	// type. It is the same after a restart. A PodSync, which may be told again,
	// has its epoch and sequence appended.
	ID   string `json:"id"`
	Type Type   `json:"type"`
	// Time is when the event was published.
	Time time.Time `json:"time"`

	Pod       Pod        `json:"pod"`
	Sandbox   *Sandbox   `json:"sandbox,omitempty"`
	Container *Container `json:"container,omitempty"`

	// CreatedAt is when the runtime made the container or sandbox that the event is
	// about.
	CreatedAt time.Time `json:"createdAt,omitzero"`

	From State `json:"from,omitempty"`
	To   State `json:"to,omitempty"`

	Status        *Status       `json:"status,omitempty"`
	StatusMissing StatusMissing `json:"statusMissing,omitempty"`

	Detection Detection `json:"detection"`
	// Inferred marks a ContainerStarted or SandboxStarted that no listing showed:
	// the first one that held it already had it exited.
	Inferred bool `json:"inferred"`
}

// ItemID is the ID of the container or sandbox that the event is about; empty for a
// PodSync of a whole pod.
func (e *Event) ItemID() string {
	switch {
	case e.Container != nil:
		return e.Container.ID
	case e.Sandbox != nil && e.Type != PodSync:
		return e.Sandbox.ID
	default:
		return ""
	}
}
