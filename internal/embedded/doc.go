// Package embedded is a container runtime that runs nothing: pods and containers
// live in memory, and a CRI client can't tell the difference.
//
// It serves two purposes. A newcomer without root, runtime or Linux sees the
// whole of hybrid-pleg at work on it (package workload plays, package cgrouptree
// mirrors the play into files that look like a cgroup hierarchy). And it is the
// runtime of the tests, which can step through any history and switch on any
// fault that a real runtime has been seen to have.
//
// A [Runtime] is the state machine and the CRI service in one. Reach it
//
//   - over a unix socket, with [Serve] and any CRI client (crictl works);
//   - within the process, with [Runtime.Client], which has the methods of
//     k8s.io/cri-client that a lister needs and works in a testing/synctest bubble;
//   - behind the scenes, with [Runtime.RunPod], [Runtime.Create],
//     [Runtime.Exit], [Runtime.SetState] and the like, which no fault touches.
//
// As in a real runtime the kernel is first: what happens to a container reaches
// the [Mirror] at once, and the CRI shows it later ([Lag]).
//
// What a container does is told by its command; see [ParseCommand].
package embedded
