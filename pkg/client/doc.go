// Package client follows a hybrid-pleg daemon: for node agents that must know of each
// container, each change once, whatever happens to the daemon.
//
// [Client.Events] is the one call for that. It yields all pods as they are and then
// every event, for ever: it connects again when the daemon is restarted and goes on
// where it was.
//
//	c, err := client.New(client.Options{})
//	…
//	for u, err := range c.Events(ctx, client.WatchOptions{}) {
//		if err != nil {
//			return err
//		}
//		switch u.Kind {
//		case client.KindReset:    // forget everything; all pods follow
//		case client.KindPod:      // a pod as it is
//		case client.KindSynced:   // those were all
//		case client.KindEvent:    // something happened
//		}
//	}
//
// # What can be relied on
//
// Within one stream, for each container and sandbox: Created, Started, Died, Removed at
// most once each and in that order, as package merge lays down.
//
// The daemon may lose sight of the stream's place: it was restarted without a state
// directory, or killed before it had written its last events, or the caller was too
// slow for its journal. The client then reads what the daemon's journal still has and
// all pods as they are, and hands on what the caller does not know yet:
//
//   - first what must have happened before the journal begins, and at the end what else
//     the pods show: as events made by the client, whose FoundBy is [FoundBySnapshot]
//     and whose Sequence is 0. What is gone is told as died (marked as inferred where
//     nobody saw how it ended) and removed;
//   - in between the journal's events, as the daemon told them.
//
// What the daemon tells a second time is left out. All this waits until the daemon is
// healthy, since one that has just started does not know all pods yet.
//
// So nothing is missing that the daemon has kept. Where its journal is not seen to reach
// back to the stream's place, what came and went before it begins is not known, and
// [Options].Log gets a line that says so. What a daemon told right before it was killed,
// and neither wrote down nor got across, its successor tells again if it is still to be
// seen.
//
// A caller that keeps running gets KindReset once, at its beginning.
//
// # Going on after the caller's own end
//
// Each update has the token to store once the update was dealt with. A caller that
// gives it as [WatchOptions].Since after its own restart, with the same filter, gets
// what came after. Stored in one transaction with the effect of the update, each change
// has its effect once; stored after it, a crash in between has the last update dealt
// with again: at least once. The event's ID is the same then and tells.
//
// Where the daemon can't go on from the token, a KindReset comes first: the client
// can't know what the caller knew. All that the caller has and that no KindPod shows
// until KindSynced is gone.
//
// # Concurrency
//
// A [Client] may be used by any number of goroutines. A stream has none of its own: it
// works while its caller ranges over it, and while the caller deals with an update the
// daemon waits. Nothing is buffered but a snapshot on its way, and with it what the
// journal has that the caller does not know.
package client
