// Package differential holds the test that sets hybrid-pleg's generator beside the
// kubelet's: histories of a container runtime, made at random, are played to both
// through one fake runtime, and what they tell of each container and sandbox is
// compared. docs/kubelet-differences.md lists how they may differ; the comparison
// allows that and no more.
//
//	go test ./differential                     a small portion
//	go test ./differential -histories 100000   many; -first says from which seed on
//	go test ./differential -seed 42            the history of one seed, to repeat a failure
package differential
