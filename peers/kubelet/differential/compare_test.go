package differential

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/relist"
)

// played is what was told of one history.
type played struct {
	kubelet, ours sequences
	// fair is what the kubelet's generator tells of the fair history: the same, but
	// every status can be read and everything has what the kubelet wants of it.
	fair sequences
	// held is what the kubelet's generator tells of the held history: the same, but
	// a pod whose status can't be read is shown as it was when it last could.
	held sequences
}

// play plays a history to both generators, and what is wanted to explain the
// differences to the kubelet's.
func (s *stage) play(t *testing.T, h history, spoil func([]relist.Change) []relist.Change) played {
	k, o := s.playBoth(t, h, spoil)
	p := played{kubelet: k.told, ours: o.told()}
	p.fair, p.held = p.kubelet, p.kubelet
	if why := h.whys(); len(why) > 0 {
		p.fair = s.playKubelet(context.WithoutCancel(t.Context()), h.fair())
		p.held = s.playKubelet(context.WithoutCancel(t.Context()), h.held())
	}
	return p
}

// why is why a container or sandbox is not compared directly. Each is a section of
// docs/kubelet-differences.md.
type why string

const (
	// statusUnread: the kubelet holds a pod's events back until all its statuses
	// can be read.
	statusUnread why = "status-unread"
	// leftOut: the kubelet does not see what has no metadata or no image.
	leftOut why = "left-out"
)

// whys says of which containers and sandboxes the two may differ, and why. There is
// nothing in it for all others.
func (h history) whys() map[string]why {
	out := make(map[string]why)
	unread := make(map[string]bool)
	for i := range h {
		for pod := range h[i].unread() {
			unread[pod] = true
		}
	}
	for i := range h {
		for _, t := range h[i].things() {
			switch {
			case t.unseen():
				out[t.id] = leftOut
			case unread[t.kubeletPod()]:
				out[t.id] = statusUnread
			}
		}
	}
	return out
}

// unread are the pods of which the kubelet can't read the status at a step.
func (s *step) unread() map[string]bool {
	pods := make(map[string]bool)
	for _, t := range s.things() {
		if s.unreadable[t.id] && !t.unseen() {
			pods[t.kubeletPod()] = true
		}
	}
	return pods
}

// fair returns the history with all statuses readable and nothing for the kubelet
// to leave out.
func (h history) fair() history {
	out := h.transform(func(_ *step, things []thing) []thing {
		things = slices.Clone(things)
		for i := range things {
			if things[i].unseen() {
				things[i].odd = usual
			}
		}
		return things
	})
	for i := range out {
		out[i].unreadable = nil
	}
	return out
}

// held returns the history in which a pod whose status can't be read stays as it
// was when it last could.
func (h history) held() history {
	out := slices.Clone(h)
	// What the last good listing held of each pod.
	shown := make(map[string]step)
	for i := range h {
		if h[i].broken != noList {
			continue
		}
		unread := h[i].unread()
		s := h[i]
		s.unreadable, s.sandboxes, s.containers = nil, nil, nil
		next := make(map[string]step)
		for _, t := range h[i].sandboxes {
			if pod := t.kubeletPod(); !unread[pod] {
				p := next[pod]
				p.sandboxes = append(p.sandboxes, t)
				next[pod] = p
			}
		}
		for _, t := range h[i].containers {
			if pod := t.kubeletPod(); !unread[pod] {
				p := next[pod]
				p.containers = append(p.containers, t)
				next[pod] = p
			}
		}
		for pod := range unread {
			if p, ok := shown[pod]; ok {
				next[pod] = p
			}
		}
		for _, pod := range slices.Sorted(maps.Keys(next)) {
			s.sandboxes = append(s.sandboxes, next[pod].sandboxes...)
			s.containers = append(s.containers, next[pod].containers...)
		}
		out[i], shown = s, next
	}
	return out
}

// tally counts what a comparison met with, to show that it met with everything.
type tally map[string]int

func (t tally) add(other tally) {
	for k, n := range other {
		t[k] += n
	}
}

// compare says where the two generators differ other than they may.
func compare(h history, p played, t tally) (wrong []string) {
	whys := h.whys()
	ids := make(map[string]bool)
	for _, s := range []sequences{p.kubelet, p.ours, p.fair, p.held} {
		for id := range s {
			ids[id] = true
		}
	}
	for _, id := range slices.Sorted(maps.Keys(ids)) {
		reason, indirect := whys[id]
		want := p.kubelet[id]
		if indirect {
			want = p.fair[id]
			t[string(reason)]++
			if explained := explain(reason, id, p); !slices.Equal(explained, p.kubelet[id]) {
				wrong = append(wrong, fmt.Sprintf("%s, which differs by %q: the kubelet told %v, and that explains only %v",
					id, reason, p.kubelet[id], explained))
			}
		} else {
			t["compared directly"]++
		}
		want = law(want, t)
		if !slices.Equal(want, p.ours[id]) {
			wrong = append(wrong, fmt.Sprintf("%s: ours told %v; the kubelet's are %v, which leaves %v by the law",
				id, p.ours[id], p.kubelet[id], want))
		}
	}
	return wrong
}

// explain returns what the kubelet must tell of an item for its difference to be the
// one that reason names.
func explain(reason why, id string, p played) []told {
	if reason == leftOut {
		return nil
	}
	return p.held[id]
}

// The repetitions that the law of pkg/merge forbids, each a section of
// docs/kubelet-differences.md.
const (
	toldTwice    = "told-twice"
	outOfOrder   = "out-of-order"
	afterRemoval = "after-removal"
)

// law leaves out of what the kubelet told of one item what hybrid-pleg's law forbids
// to tell.
func law(all []told, t tally) []told {
	place := map[event.Type]int{event.ContainerStarted: 1, event.ContainerDied: 2, event.ContainerRemoved: 3}
	var out []told
	last := 0
	for _, e := range all {
		n := place[e.typ]
		switch {
		case last == place[event.ContainerRemoved]:
			t[afterRemoval]++
		case slices.Contains(types(out), e.typ):
			t[toldTwice]++
		case n < last:
			t[outOfOrder]++
		default:
			out = append(out, e)
			last = n
		}
	}
	return out
}
