package output

import (
	"bytes"
	"cmp"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	"k8s.io/apimachinery/pkg/util/duration"
)

// PodTableOptions are the settings of a [PodTable]. The zero value is for a file.
type PodTableOptions struct {
	// Wide adds the pod's UID and newest sandbox, and a line for each container.
	Wide   bool
	Colour bool
	// Now gives the time that ages are counted from. Nil: [time.Now].
	Now func() time.Time
}

// PodTable writes pods as a table, for people. What is written in one call is
// aligned; columns never become narrower from one call to the next, so that what
// follows stays below its heading as far as that is possible.
type PodTable struct {
	w      io.Writer
	opts   PodTableOptions
	widths []int
	headed bool
}

// NewPodTable returns a table that writes its heading with the first pods.
func NewPodTable(w io.Writer, opts PodTableOptions) *PodTable {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	return &PodTable{w: w, opts: opts}
}

// row is a line of the table; under is what follows it, container by container.
type row struct {
	cells  []string
	colour string // of the state
	under  []row
}

// stateColumn is the column that has a colour, under's too.
const stateColumn = 2

// Write writes a line for each pod, and those of its containers.
func (t *PodTable) Write(pods []event.PodStatus) error {
	var rows []row
	if !t.headed {
		head := []string{"NAMESPACE", "POD", "STATE", "CONTAINERS", "RESTARTS", "AGE"}
		if t.opts.Wide {
			head = append(head, "UID", "SANDBOX")
		}
		rows = append(rows, row{cells: head})
		t.headed = true
	}
	for i := range pods {
		rows = append(rows, t.podRow(&pods[i]))
	}
	for _, r := range rows {
		t.widen(r.cells)
		for _, u := range r.under {
			t.widen(u.cells[:len(u.cells)-1]) // the details stand for themselves
		}
	}
	var buf bytes.Buffer
	for _, r := range rows {
		t.write(&buf, r)
		for _, u := range r.under {
			t.write(&buf, u)
		}
	}
	_, err := t.w.Write(buf.Bytes())
	return err
}

// widen makes room for cells.
func (t *PodTable) widen(cells []string) {
	for i, cell := range cells {
		if i == len(t.widths) {
			t.widths = append(t.widths, 0)
		}
		t.widths[i] = max(t.widths[i], columns(cell))
	}
}

func (t *PodTable) write(buf *bytes.Buffer, r row) {
	var b strings.Builder
	for i, cell := range r.cells {
		if i > 0 {
			b.WriteString(gap)
		}
		b.WriteString(paint(t.opts.Colour && i == stateColumn, r.colour, cell))
		if i+1 < len(r.cells) && i < len(t.widths) {
			b.WriteString(strings.Repeat(" ", max(0, t.widths[i]-columns(cell))))
		}
	}
	buf.WriteString(strings.TrimRight(b.String(), " "))
	buf.WriteByte('\n')
}

// orDash stands for what is not known.
func orDash(s string) string { return cmp.Or(clean(s, nameWidth), "-") }

func (t *PodTable) podRow(p *event.PodStatus) row {
	sandbox := newest(p.Sandboxes)
	running, total, restarts := count(p.Containers)
	state, age, sandboxID := event.StateNonExistent, time.Time{}, ""
	switch {
	case sandbox != nil:
		state, age, sandboxID = sandbox.State, sandbox.CreatedAt, sandbox.Sandbox.ID
	case len(p.Containers) > 0: // its sandbox is gone, or was never listed
		state = event.StateUnknown
	}
	r := row{
		cells: []string{
			orDash(p.Pod.Namespace), orDash(cmp.Or(p.Pod.Name, p.Pod.UID)), stateWord(state),
			strconv.Itoa(running) + "/" + strconv.Itoa(total), strconv.Itoa(restarts), t.age(age),
		},
		colour: stateColour(state),
	}
	if !t.opts.Wide {
		return r
	}
	r.cells = append(r.cells, orDash(p.Pod.UID), orDash(sandboxID))
	for i := range p.Containers {
		r.under = append(r.under, t.containerRow(&p.Containers[i]))
	}
	return r
}

func (t *PodTable) containerRow(c *event.ContainerStatus) row {
	name := clean(c.Container.Name, nameWidth)
	if c.Container.Attempt > 0 {
		name += "#" + strconv.FormatUint(uint64(c.Container.Attempt), 10)
	}
	r := row{
		cells:  []string{"", "  " + cmp.Or(name, "-"), stateWord(c.State), exit(c.Status), "", t.age(c.CreatedAt)},
		colour: stateColour(c.State),
	}
	if s := c.Status; c.State == event.StateExited && (s == nil || s.ExitCode == nil || *s.ExitCode != 0) {
		r.colour = red
	}
	details := orDash(c.Container.ID) + gap + orDash(c.Container.Image)
	if s := c.Status; s != nil {
		if s.Pid > 0 {
			details += gap + "pid " + strconv.Itoa(s.Pid)
		}
		if s.CgroupPath != "" {
			details += gap + clean(s.CgroupPath, 4*nameWidth)
		}
	}
	r.cells = append(r.cells, details)
	return r
}

// exit says how a container ended; empty while it has not, or where it is not known.
func exit(s *event.Status) string {
	if s == nil || s.ExitCode == nil {
		return ""
	}
	text := "exit " + strconv.Itoa(int(*s.ExitCode))
	if s.Reason == "OOMKilled" {
		text += " OOM"
	}
	return text
}

// newest returns the sandbox that a pod lives in, or lived in last.
func newest(sandboxes []event.SandboxStatus) *event.SandboxStatus {
	var best *event.SandboxStatus
	for i := range sandboxes {
		s := &sandboxes[i]
		if best == nil || cmp.Or(cmp.Compare(s.Sandbox.Attempt, best.Sandbox.Attempt), s.CreatedAt.Compare(best.CreatedAt)) > 0 {
			best = s
		}
	}
	return best
}

// count counts a pod's containers by name, since an earlier attempt is not one more,
// and the restarts of all of them.
func count(containers []event.ContainerStatus) (running, total, restarts int) {
	last := make(map[string]*event.ContainerStatus)
	for i := range containers {
		c := &containers[i]
		key := cmp.Or(c.Container.Name, c.Container.ID)
		if have := last[key]; have == nil || c.Container.Attempt >= have.Container.Attempt {
			last[key] = c
		}
	}
	for _, c := range last {
		if c.State == event.StateRunning {
			running++
		}
		restarts += int(c.Container.Attempt)
	}
	return running, len(last), restarts
}

// age writes how long ago something was made as kubectl does.
func (t *PodTable) age(at time.Time) string {
	if at.IsZero() {
		return "-"
	}
	return Age(t.opts.Now().Sub(at))
}

// Age writes a duration as kubectl writes ages.
func Age(d time.Duration) string { return duration.HumanDuration(max(0, d)) }

// stateWord says of a pod of which nothing is left that it is gone.
func stateWord(s event.State) string {
	if s == event.StateNonExistent {
		return "gone"
	}
	return orDash(string(s))
}

func stateColour(s event.State) string {
	switch s {
	case event.StateRunning:
		return green
	case event.StateCreated:
		return blue
	case event.StateExited, event.StateUnknown:
		return yellow
	default:
		return grey
	}
}

// CountPods counts the pods with a running sandbox and all running containers.
func CountPods(pods []event.PodStatus) (running, containers int) {
	for i := range pods {
		if slices.ContainsFunc(pods[i].Sandboxes, func(s event.SandboxStatus) bool { return s.State == event.StateRunning }) {
			running++
		}
		n, _, _ := count(pods[i].Containers)
		containers += n
	}
	return running, containers
}
