// Package relist says what is: it lists what the container runtime holds,
// compares that with what it held before, and tells the differences.
//
// An [Engine] takes observations (one pod's or everybody's), applies them to its
// [Store] and hands the resulting [Change]s to a sink, pod by pod and in order.
// Details that a listing lacks are read before a change is handed on, each with a
// short deadline, so that a runtime that hangs on one container holds up only
// that container's pod, and that only for the deadline.
//
// When to look is not decided here: see package trigger.
package relist
