// Package event is the vocabulary of hybrid-pleg: what happened to which
// container of which pod, and how it was found out.
//
// The types are plain values that marshal to the JSON written by the daemon.
// They hold no behaviour beyond naming, so that every other package, and every
// program that reads the stream, can share them without pulling in anything
// else.
package event
