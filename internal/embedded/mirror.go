package embedded

// Cgroup names the control group of a container or sandbox.
type Cgroup struct {
	// Parent is the pod's cgroup as the CRI's cgroup_parent gives it:
	// "/kubepods/burstable/pod<uid>", or "kubepods-burstable-pod<uid>.slice" where
	// systemd manages cgroups, or "/k8s.io", containerd's choice for a sandbox that
	// names none.
	Parent string
	// ID is the container's or sandbox's ID.
	ID string
	// Pid is the first process of the container.
	Pid int
}

// Mirror is told, in the kernel's order, what the kernel would show of each
// cgroup: Created, Populated, Emptied, Removed; and around them PodAdded and
// PodRemoved of its parent. Each call comes before the CRI shows the change that
// goes with it. Calls come one at a time. An error is logged and changes nothing:
// a runtime does not stop because somebody's view of the kernel is lost.
type Mirror interface {
	PodAdded(parent string) error
	// Created: the cgroup was made and is empty.
	Created(Cgroup) error
	// Populated: its first process, Pid, is in it.
	Populated(Cgroup) error
	// Frozen: its processes were paused, or go on.
	Frozen(Cgroup, bool) error
	// Emptied: its last process has ended.
	Emptied(Cgroup) error
	// Removed: the cgroup is gone.
	Removed(Cgroup) error
	// PodRemoved: the pod's cgroup is gone; no cgroup is left in it.
	PodRemoved(parent string) error
}

type noMirror struct{}

func (noMirror) PodAdded(string) error     { return nil }
func (noMirror) Created(Cgroup) error      { return nil }
func (noMirror) Populated(Cgroup) error    { return nil }
func (noMirror) Frozen(Cgroup, bool) error { return nil }
func (noMirror) Emptied(Cgroup) error      { return nil }
func (noMirror) Removed(Cgroup) error      { return nil }
func (noMirror) PodRemoved(string) error   { return nil }
