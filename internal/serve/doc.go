// Package serve serves the stream of events to node agents: gRPC and HTTP on one
// unix socket, and HTTP on a TCP address where that was asked for.
//
// One loop ([Server.follow]) reads a merge.Watcher for a client, whatever the
// client speaks; a sink writes the items as protobuf messages, lines of JSON or
// server-sent events. An event is encoded once for all clients. A watcher has no
// buffer here: what a client does not take in time waits in the journal, and in the
// transport no more than Limits.WatcherBuffer and gRPC's window.
//
// At the end, watchers get what is already published, then are told that the server
// ends; nothing that a client does holds that up for longer than a second.
package serve
