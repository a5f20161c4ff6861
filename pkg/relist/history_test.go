package relist

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

var update = flag.Bool("update", false, "write what the histories in testdata give now into them")

// TestHistories plays the histories in testdata. A line that is not indented is a
// command (see history.run), and the indented lines below it are what the store
// must say to it: a change for each line, and the anomalies with a ! before.
//
// Run with -update to write what the store says into the files.
func TestHistories(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no histories in testdata: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got, err := play(string(raw))
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			if got == string(raw) {
				return
			}
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			t.Errorf("%s differs; what happens is:\n%s", file, got)
		})
	}
}

// play runs a history and returns it with what the store says to it.
func play(script string) (string, error) {
	h := newHistory()
	var out strings.Builder
	for i, line := range strings.Split(strings.TrimRight(script, "\n"), "\n") {
		if strings.HasPrefix(line, "  ") {
			continue // what was expected
		}
		fmt.Fprintln(&out, line)
		words := strings.Fields(line)
		if len(words) == 0 || words[0] == "#" {
			continue
		}
		said, err := h.run(words)
		if err != nil {
			return "", fmt.Errorf("line %d: %w", i+1, err)
		}
		for _, s := range said {
			fmt.Fprintln(&out, "  "+s)
		}
	}
	return out.String(), nil
}

// history is a runtime made of two lists, the kernel's view beside it, and the
// store that observes them.
type history struct {
	store      *Store
	now        time.Time
	sandboxes  []*runtimeapi.PodSandbox
	containers []*runtimeapi.Container
	kernel     map[string]bool // what the kernel knows: alive or not
	taken      map[string]*Observation
	said       []string
}

func newHistory() *history {
	h := &history{now: time.Now(), kernel: make(map[string]bool), taken: make(map[string]*Observation)}
	h.store = NewStore(StoreOptions{
		Alive: func(id string) (alive, known bool) {
			alive, known = h.kernel[id]
			return alive, known
		},
		MissingGrace: time.Minute,
		OnAnomaly:    func(a Anomaly) { h.said = append(h.said, "! "+string(a)) },
	})
	return h
}

// run runs one command:
//
//	sandbox ID [ready|notready|state=N] [pod=UID] [label=UID] [ns= name= attempt= at=] [nometa] [twice]
//	container ID [created|running|exited|unknown|state=N] [sandbox=ID] [label=UID] [name= attempt= image= at=] [nometa] [twice]
//	gone ID...        the runtime lists it no more
//	nil               the lists hold a nil item each
//	alive ID, dead ID the kernel shows processes of it, or none
//	wait DURATION     time passes
//	clock DURATION    the wall clock is stepped
//	observe NAME [UID], apply NAME    a listing is begun, and is applied
//	begin NAME        a listing is begun, and is to be observed later
//	relist [UID]      both
//	state ID          what the records hold
//	pods              the pods that have records
func (h *history) run(words []string) ([]string, error) {
	h.said = nil
	cmd, args := words[0], words[1:]
	arg := func(i int) string {
		if i < len(args) {
			return args[i]
		}
		return ""
	}
	switch cmd {
	case "sandbox":
		return nil, h.sandbox(parse(args))
	case "container":
		return nil, h.container(parse(args))
	case "gone":
		for _, id := range args {
			h.gone(parse([]string{id})["id"])
		}
	case "nil":
		h.sandboxes = append(h.sandboxes, nil)
		h.containers = append(h.containers, nil)
	case "alive", "dead":
		h.kernel[arg(0)] = cmd == "alive"
	case "wait":
		d, err := time.ParseDuration(arg(0))
		h.now = h.now.Add(d)
		return nil, err
	case "clock":
		d, err := time.ParseDuration(arg(0))
		h.now = stepWall(h.now, d)
		return nil, err
	case "observe":
		before, begun := h.taken[arg(0)]
		o := h.observe(arg(1))
		if begun {
			o.At, o.begun = before.At, before.begun
		}
		h.taken[arg(0)] = o
	case "begin":
		h.now = h.now.Add(time.Millisecond)
		h.taken[arg(0)] = &Observation{At: h.now, begun: h.store.generation()}
	case "apply":
		o := h.taken[arg(0)]
		if o == nil {
			return nil, fmt.Errorf("nothing observed as %q", arg(0))
		}
		delete(h.taken, arg(0))
		h.apply(o)
	case "relist":
		h.apply(h.observe(arg(0)))
	case "state":
		return []string{string(h.store.State(arg(0))) + " " + h.store.PodOf(arg(0))}, nil
	case "pods":
		return slices.Sorted(maps.Keys(h.store.pods)), nil
	default:
		return nil, fmt.Errorf("no command %q", cmd)
	}
	return h.said, nil
}

// words are a command's arguments: an ID, single words, and key=value pairs.
type words map[string]string

func parse(args []string) words {
	w := make(words)
	for i, arg := range args {
		key, value, ok := strings.Cut(arg, "=")
		switch {
		case ok:
			if unquoted, err := strconv.Unquote(value); err == nil {
				value = unquoted
			}
			w[key] = value
		case i == 0:
			w["id"] = arg
			if unquoted, err := strconv.Unquote(arg); err == nil {
				w["id"] = unquoted
			}
		default:
			w[arg] = arg
		}
	}
	return w
}

func (w words) number(key string) int64 {
	n, _ := strconv.ParseInt(w[key], 10, 64)
	return n
}

// state reads the state out of the words; names gives the values their names.
func (w words) state(names map[string]int32) int32 {
	for name, value := range names {
		if _, ok := w[strings.ToLower(name[strings.LastIndex(name, "_")+1:])]; ok {
			return value
		}
	}
	return int32(w.number("state"))
}

func (w words) labels() map[string]string {
	if uid, ok := w["label"]; ok {
		return map[string]string{labelPodUID: uid}
	}
	return nil
}

func (h *history) sandbox(w words) error {
	sb := &runtimeapi.PodSandbox{
		Id: w["id"], Labels: w.labels(), CreatedAt: w.number("at"),
		State: runtimeapi.PodSandboxState(w.state(runtimeapi.PodSandboxState_value)),
	}
	if _, ok := w["nometa"]; !ok {
		sb.Metadata = &runtimeapi.PodSandboxMetadata{
			Uid: w["pod"], Namespace: w["ns"], Name: w["name"], Attempt: uint32(w.number("attempt")),
		}
	}
	i := slices.IndexFunc(h.sandboxes, func(s *runtimeapi.PodSandbox) bool { return s != nil && s.Id == sb.Id })
	if _, twice := w["twice"]; i < 0 || twice {
		h.sandboxes = append(h.sandboxes, sb)
	} else {
		h.sandboxes[i] = sb
	}
	return nil
}

func (h *history) container(w words) error {
	c := &runtimeapi.Container{
		Id: w["id"], PodSandboxId: w["sandbox"], Labels: w.labels(), CreatedAt: w.number("at"),
		State: runtimeapi.ContainerState(w.state(runtimeapi.ContainerState_value)),
		Image: &runtimeapi.ImageSpec{Image: w["image"]},
	}
	if _, ok := w["nometa"]; !ok {
		c.Metadata = &runtimeapi.ContainerMetadata{Name: w["name"], Attempt: uint32(w.number("attempt"))}
	}
	i := slices.IndexFunc(h.containers, func(s *runtimeapi.Container) bool { return s != nil && s.Id == c.Id })
	if _, twice := w["twice"]; i < 0 || twice {
		h.containers = append(h.containers, c)
	} else {
		h.containers[i] = c
	}
	return nil
}

func (h *history) gone(id string) {
	h.sandboxes = slices.DeleteFunc(h.sandboxes, func(s *runtimeapi.PodSandbox) bool { return s != nil && s.Id == id })
	h.containers = slices.DeleteFunc(h.containers, func(c *runtimeapi.Container) bool { return c != nil && c.Id == id })
}

// observe lists as the engine does, against the lists as they are now.
func (h *history) observe(uid string) *Observation {
	h.now = h.now.Add(time.Millisecond)
	rt := &listRuntime{sandboxes: h.sandboxes, containers: h.containers}
	var o *Observation
	if uid == "" {
		o, _ = listAll(context.Background(), rt, h.store)
	} else {
		o, _ = listPod(context.Background(), rt, h.store, uid)
	}
	o.At = h.now
	o.Sandboxes, o.Containers = slices.Clone(o.Sandboxes), slices.Clone(o.Containers)
	return o
}

func (h *history) apply(o *Observation) {
	for _, pc := range h.store.Apply(o, nil) {
		for i := range pc.Changes {
			h.said = append(h.said, describeChange(&pc.Changes[i]))
		}
	}
}

// describeChange is one line for a change. A - stands for a change that is not
// told.
func describeChange(c *Change) string {
	typ := string(c.Type)
	if typ == "" {
		typ = "-"
	}
	id := c.ItemID()
	line := fmt.Sprintf("%s %s %s", c.Pod.UID, typ, id)
	if c.Container != nil && c.Container.Name != "" {
		line += fmt.Sprintf(" (%s/%d)", c.Container.Name, c.Container.Attempt)
	}
	if c.From != c.To {
		line += fmt.Sprintf(" %s -> %s", c.From, c.To)
	}
	if c.Inferred {
		line += " inferred"
	}
	if c.Status != nil && c.Status.ExitCode != nil {
		line += fmt.Sprintf(" code=%d", *c.Status.ExitCode)
	}
	if c.StatusMissing != "" {
		line += " status=" + string(c.StatusMissing)
	}
	return line
}

// stepWall moves the wall clock reading of t and leaves its monotonic reading as
// it is: what time.Now returns after a step of the clock.
func stepWall(t time.Time, d time.Duration) time.Time {
	// time.Time's wall field holds a flag, 33 bits of seconds and 30 of nanoseconds
	// while there is a monotonic reading.
	wall := (*uint64)(unsafe.Pointer(&t))
	*wall += uint64(int64(d/time.Second)) << 30
	return t
}

func TestStepWall(t *testing.T) {
	before := time.Now()
	after := stepWall(before, -time.Hour)
	if got := after.Sub(before); got != 0 {
		t.Errorf("the monotonic reading moved by %s", got)
	}
	if got := after.Round(0).Sub(before.Round(0)); got != -time.Hour {
		t.Errorf("the wall clock moved by %s, want -1h", got)
	}
}
