package client

import (
	"fmt"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/merge"
)

// Kind says what an [Update] is.
type Kind uint8

// The kinds of update.
const (
	// KindReset: whatever was known is void. All pods follow, then a KindSynced.
	// A stream without a token begins with it.
	KindReset Kind = iota + 1
	// KindPod: one pod as it is. It comes only between a KindReset and the
	// KindSynced after it.
	KindPod
	// KindSynced: the pods are complete; or, with a token, the past is told. It
	// comes once after a stream's beginning and once after each KindReset.
	KindSynced
	// KindEvent: something happened.
	KindEvent
	// KindBookmark: nothing happened that the filter lets through, but the token
	// moved.
	KindBookmark
)

// String returns the kind's name in lower case.
func (k Kind) String() string {
	switch k {
	case KindReset:
		return "reset"
	case KindPod:
		return "pod"
	case KindSynced:
		return "synced"
	case KindEvent:
		return "event"
	case KindBookmark:
		return "bookmark"
	default:
		return fmt.Sprintf("Kind(%d)", uint8(k))
	}
}

// Update is one thing that a stream tells. Read what it points to, don't write to
// it.
type Update struct {
	Kind  Kind
	Pod   *event.PodStatus // of a KindPod
	Event *event.Event     // of a KindEvent
	// Token is where to go on once the update is dealt with. It is zero from a
	// KindReset until the KindSynced after it: half of the pods is nothing to go on
	// from, and who stores the zero Token starts with a KindReset again.
	Token merge.Token
}

// FoundBySnapshot is the [event.Detection].FoundBy of an event that the client made
// itself: the daemon has no event for it any more, or never had one, and the pods as
// they are, or a later event, show that it happened. Its Sequence is 0.
const FoundBySnapshot event.FoundBy = "snapshot"
