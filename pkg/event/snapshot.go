package event

import "time"

// PodStatus is the state of one pod as told so far: what a watcher starts from,
// and what the events it receives afterwards change.
type PodStatus struct {
	Pod        Pod               `json:"pod"`
	Sandboxes  []SandboxStatus   `json:"sandboxes,omitempty"`
	Containers []ContainerStatus `json:"containers,omitempty"`
}

// SandboxStatus is one sandbox of a [PodStatus].
type SandboxStatus struct {
	Sandbox   Sandbox   `json:"sandbox"`
	State     State     `json:"state"`
	CreatedAt time.Time `json:"createdAt,omitzero"`
}

// ContainerStatus is one container of a [PodStatus].
type ContainerStatus struct {
	Container Container `json:"container"`
	SandboxID string    `json:"sandboxId,omitempty"`
	State     State     `json:"state"`
	CreatedAt time.Time `json:"createdAt,omitzero"`
	Status    *Status   `json:"status,omitempty"`
}
