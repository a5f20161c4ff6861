package differential

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// The states by shorter names.
const (
	ready    = int32(runtimeapi.PodSandboxState_SANDBOX_READY)
	notReady = int32(runtimeapi.PodSandboxState_SANDBOX_NOTREADY)
	created  = int32(runtimeapi.ContainerState_CONTAINER_CREATED)
	running  = int32(runtimeapi.ContainerState_CONTAINER_RUNNING)
	exited   = int32(runtimeapi.ContainerState_CONTAINER_EXITED)
	unknown  = int32(runtimeapi.ContainerState_CONTAINER_UNKNOWN)
	// foreign is no state of a container or a sandbox.
	foreign = int32(77)
)

// randomHistory makes the history of a seed. The runtime does what runtimes do most
// of the time, and anything at all the rest of it.
func randomHistory(seed uint64) history {
	w := &world{
		rand: rand.New(rand.NewPCG(seed, 0)),
		live: make(map[string]*thing), hidden: make(map[string]*thing), unreadable: make(map[string]int),
	}
	// Some histories have no unreadable status at all, so that much is compared
	// directly.
	w.unreadables = w.chance(40)
	w.oddities = w.chance(20)
	h := make(history, 0, 32)
	for n := 4 + w.rand.IntN(28); n > 0; n-- {
		for range w.rand.IntN(6) {
			w.act()
		}
		h = append(h, w.show())
	}
	return h
}

// world is a runtime that lives.
type world struct {
	rand                  *rand.Rand
	unreadables, oddities bool

	live   map[string]*thing
	hidden map[string]*thing // left out of the lists for a while
	gone   []thing
	made   int
	pods   int
	// unreadable says for how many more relists a status can't be read; away for
	// how many nothing can be listed.
	unreadable map[string]int
	away       int
}

// chance is true in a given share of a hundred.
func (w *world) chance(percent int) bool { return w.rand.IntN(100) < percent }

// act does one thing that can happen to a runtime.
func (w *world) act() {
	switch n := w.rand.IntN(100); {
	case n < 12:
		w.pods++
		w.addSandbox(fmt.Sprintf("pod%d", w.pods), 0)
	case n < 17:
		if sb := w.pick(isSandbox); sb != nil {
			w.addSandbox(sb.pod, sb.attempt+1)
		}
	case n < 37:
		w.addContainer()
	case n < 70:
		if c := w.pick(isContainer); c != nil {
			w.advance(c)
		}
	case n < 78:
		if sb := w.pick(isSandbox); sb != nil {
			sb.state = w.weighted(map[int32]int{ready: 3, notReady: 12, foreign: 1})
		}
	case n < 84:
		if t := w.pick(anything); t != nil {
			w.remove(t.id)
		}
	case n < 88:
		if t := w.pick(anything); t != nil {
			w.removePod(t.pod)
		}
	case n < 90:
		w.restart()
	case n < 93:
		maps.Copy(w.live, w.hidden)
		clear(w.hidden)
	case n < 95:
		w.bringBack()
	case w.unreadables:
		if t := w.pick(anything); t != nil {
			w.unreadable[t.id] = 1 + w.rand.IntN(4)
		}
	}
}

func (w *world) addSandbox(pod string, attempt uint32) {
	w.add(&thing{
		pod: pod, attempt: attempt, odd: w.odd(noMetadata, noLabels),
		state: w.weighted(map[int32]int{ready: 12, notReady: 2, foreign: 1}),
	}, "s")
}

func (w *world) addContainer() {
	sb := w.pick(isSandbox)
	if sb == nil {
		return
	}
	c := &thing{
		pod: sb.pod, sandbox: sb.id, name: fmt.Sprintf("app%d", w.rand.IntN(2)),
		odd:   w.odd(noMetadata, noImage, noLabels),
		state: w.weighted(map[int32]int{created: 6, running: 8, exited: 3, unknown: 1, foreign: 1}),
	}
	for _, t := range w.live {
		if t.sandbox == c.sandbox && t.name == c.name {
			c.attempt = max(c.attempt, t.attempt+1)
		}
	}
	w.add(c, "c")
	if w.chance(5) { // it outlives its sandbox, or is listed before it
		w.hidden[sb.id] = sb
		delete(w.live, sb.id)
	}
}

func (w *world) add(t *thing, prefix string) {
	w.made++
	t.id = fmt.Sprintf("%s%d", prefix, w.made)
	// Several may be made in the same moment.
	t.createdAt = int64(1 + w.made/2)
	w.live[t.id] = t
}

func (w *world) odd(choices ...oddity) oddity {
	if !w.oddities || !w.chance(15) {
		return usual
	}
	return choices[w.rand.IntN(len(choices))]
}

// advance takes a container a step on in its life, and sometimes anywhere.
func (w *world) advance(c *thing) {
	next := map[int32]int{created: 1, running: 1, exited: 1, unknown: 1, foreign: 1}
	switch c.state {
	case created:
		next[running], next[exited] = 20, 3
	case running:
		next[exited], next[unknown] = 20, 3
	case exited:
		if w.chance(60) {
			w.remove(c.id)
			return
		}
	}
	c.state = w.weighted(next)
}

func (w *world) remove(id string) {
	if t := w.live[id]; t != nil {
		w.gone = append(w.gone, *t)
		delete(w.live, id)
	}
}

func (w *world) removePod(pod string) {
	for _, id := range w.ids() {
		if w.live[id].pod == pod {
			w.remove(id)
		}
	}
}

// restart is a restart of the runtime: nothing is listed for a while; then what ran
// runs on, has ended, is in no known state, or is left out.
func (w *world) restart() {
	w.away = w.rand.IntN(3)
	for _, id := range w.ids() {
		t := w.live[id]
		if t.state != running || t.sandbox == "" {
			continue
		}
		switch w.rand.IntN(5) {
		case 0:
			t.state = exited
		case 1:
			t.state = unknown
		case 2:
			w.hidden[id] = t
			delete(w.live, id)
		}
	}
}

// bringBack lists something again that was removed.
func (w *world) bringBack() {
	if len(w.gone) == 0 {
		return
	}
	t := w.gone[w.rand.IntN(len(w.gone))]
	if w.live[t.id] == nil && w.hidden[t.id] == nil {
		w.live[t.id] = &t
	}
}

// show is what the runtime lists now, in any order.
func (w *world) show() step {
	s := step{unreadable: make(map[string]bool), notFound: make(map[string]bool)}
	ids := w.ids()
	w.rand.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	for _, id := range ids {
		t := w.live[id]
		if t.sandbox == "" {
			s.sandboxes = append(s.sandboxes, *t)
		} else {
			s.containers = append(s.containers, *t)
		}
		if w.chance(3) {
			s.notFound[id] = true
		}
	}
	for _, id := range slices.Sorted(maps.Keys(w.unreadable)) {
		s.unreadable[id] = true
		if w.unreadable[id]--; w.unreadable[id] == 0 {
			delete(w.unreadable, id)
		}
	}
	switch {
	case w.away > 0:
		w.away--
		s.broken = sandboxList
	case w.chance(6):
		s.broken = []list{sandboxList, containersList}[w.rand.IntN(2)]
	}
	return s
}

func (w *world) ids() []string { return slices.Sorted(maps.Keys(w.live)) }

func anything(*thing) bool      { return true }
func isSandbox(t *thing) bool   { return t.sandbox == "" }
func isContainer(t *thing) bool { return t.sandbox != "" }

// pick returns one that is live; nil when there is none.
func (w *world) pick(ok func(*thing) bool) *thing {
	ids := slices.DeleteFunc(w.ids(), func(id string) bool { return !ok(w.live[id]) })
	if len(ids) == 0 {
		return nil
	}
	return w.live[ids[w.rand.IntN(len(ids))]]
}

// weighted picks a state.
func (w *world) weighted(weights map[int32]int) int32 {
	sum := 0
	for _, n := range weights {
		sum += n
	}
	n := w.rand.IntN(sum)
	for _, st := range slices.Sorted(maps.Keys(weights)) {
		if n -= weights[st]; n < 0 {
			return st
		}
	}
	panic("unreachable: the weights add up")
}
