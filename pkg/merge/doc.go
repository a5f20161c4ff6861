// Package merge decides what to tell. It takes the changes that relist observed,
// lets each become an event at most once and in order, numbers the events, keeps
// the last of them in a journal, and serves any number of watchers from it.
//
// # The law
//
// For one container ID: ContainerCreated at most once, ContainerStarted at most
// once, ContainerDied at most once, ContainerRemoved at most once, in that order
// and nothing after ContainerRemoved. For one sandbox ID likewise SandboxStarted,
// SandboxDied, SandboxRemoved. A step may be left out, because nobody saw it. A
// PodSync may repeat, but never for a removed container. Sequence numbers grow by
// one over all events. A change that the law forbids to tell is
// suppressed and counted under its [Reason].
//
// The law holds for the last 16,384 removed IDs ([Options].Removed): an ID that is
// seen again after so many others were removed counts as new. Runtimes make IDs
// at random and never again.
//
// # What a watcher can rely on
//
// A watcher ([Log.Watch]) gets all pods as they are, then Synced, then every
// event from there on; or, with a token, every event since that token. Events
// wait for the watcher in the journal, which the watcher reads at its own pace:
// it never holds up the publisher or another watcher. One that is too far behind
// for the journal is told so (Expired) and starts again with all pods. Nothing is
// left out silently.
//
// The snapshot at token T is what the events up to T add up to. Whoever applies
// the events after T to it, by these rules, has the snapshot of any later token:
//
//   - A removal takes the container or sandbox away, and with the last one its
//     pod.
//   - Any other event about a container or sandbox puts it into the pod that the
//     event names, which comes into being by that. A Status, where present,
//     replaces the one before.
//   - The type gives the state: created, running or exited after Created, Started
//     or Died. A PodSync leaves it as it is, which is unknown for a container not
//     heard of before.
//
// What is never told as an event shows in snapshots only: that the runtime can't
// say a container's state (unknown), and the state of an ID that came back to
// life after its end was told. Who took such a state from a snapshot is set right
// by the next event about that ID, or by the next snapshot.
//
// # Across restarts
//
// A [Recorder] hands what a log holds to someone who keeps it; a log made with
// [Options].Restore goes on from there. The law then holds over both, and so do
// sequence numbers, tokens and snapshots. Each log has an epoch of its own. What an
// earlier one told after it was last recorded is lost with its numbers: they are
// given again, to other events, and a token that names one of them by that epoch
// expires. What was told and lost is told again if it is still to be seen, under the
// same event IDs.
package merge
