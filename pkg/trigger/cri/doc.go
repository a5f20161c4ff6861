// Package cri is the trigger source that follows the runtime's own event stream
// (CRI GetContainerEvents).
//
// The stream has no cursor, so whatever happened while it was broken is lost to
// it; some runtimes replay old events, some do not offer it, some end it at once.
// None of that matters here: an event only says that it is worth looking.
package cri
