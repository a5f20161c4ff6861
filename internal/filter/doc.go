// Package filter picks pods and events. The API, the HTTP server, the Go client and
// the command line all state what they want as a [Spec]; [New] checks it and makes
// the [Filter] that a merge.Watcher takes.
package filter
