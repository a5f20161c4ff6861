// Package trigger decides when to look.
//
// A [Source] turns something the kernel or the runtime says into a [Signal]; the
// [Scheduler] turns signals, and the passing of time, into requests to look at
// one pod, or at all. A signal is a hint and no more: it never becomes an event,
// and losing every one of them costs time, never correctness.
//
// The scheduler is a state machine without goroutines or clock; [Loop] puts it to
// work, together with the sources, which it starts, restarts and reports on. The
// sources live in the sub-packages cgroup, ebpf and cri.
package trigger
