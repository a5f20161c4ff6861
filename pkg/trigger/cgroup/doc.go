// Package cgroup is the source of signals that watches the cgroup file system.
//
// The directory of a container's cgroup appears before its first process and goes
// after its last, and on cgroup v2 the file cgroup.events in it changes when the
// cgroup becomes populated or empties. One inotify instance sees all of it, by
// github.com/fsnotify/fsnotify, without privileges.
//
//	s := cgroup.New(cgroup.Options{})
//	err := s.Run(ctx, sink)
//
// # What is watched
//
// Not the whole tree: a host may have a service with thousands of cgroups, and
// watches are limited. See rule.go. In short: everything from the root down to the
// pods of any kubelet; the cgroup.events file of every container; and as
// candidates, since they may become the parents of containers, slices, services
// and plainly named cgroups at most five levels below the root, up to
// [Options.MaxCandidates].
//
// On a hybrid host the v2 hierarchy is watched, and one of v1 as well until the first
// container of the CRI shows in v2: not every runtime enters both.
//
// # What it says
//
// A pod's or container's cgroup was added or removed; a container's became populated
// (started) or emptied (exited). v1 tells only of the first two. A cgroup becomes
// populated some time before the workload's exec, for the runtime's own init runs
// in it first, and empties when its last process ends, which may be later than
// the death of the workload.
//
// What exists when Run begins makes no signals: whoever runs the source lists
// everything once after [trigger.Sink.Up]. A later Run of the same source says
// that signals were lost ([trigger.KindLost]), as does an overflow of the kernel's
// queue, before it tells the differences which a new scan finds.
package cgroup
