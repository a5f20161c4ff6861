// Package trigger decides when to look.
//
// A [Source] turns something the kernel or the runtime says into a [Signal]; the
// Scheduler turns signals into requests to relist one pod, or all. A signal is
// a hint and no more: it never becomes an event, and losing every one of them
// costs time, never correctness.
//
// The sources live in the sub-packages cgroup, ebpf and cri.
package trigger
