package cgroupfs

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/trigger"
)

// Locator finds the cgroups of containers by their processes. It is safe for
// concurrent use.
type Locator struct {
	proc   string
	layout func() (Layout, error)

	mu sync.Mutex
	// above holds what was found to be the first elements, by their number, of the
	// path to this process's namespace.
	above map[int]string
}

// NewLocator returns a locator for this host. What is mounted is found out when it
// is first needed, and taken to stay so.
func NewLocator() *Locator {
	return &Locator{proc: "/proc", layout: sync.OnceValues(Detect), above: make(map[int]string)}
}

// Located is the cgroup of a container.
type Located struct {
	// Path is its path from the root of its hierarchy, or from what this process
	// sees of that: the v2 one's if the container is in it, else a v1 one's. It is
	// empty if the process is in the pod's cgroup and in none of the container's own,
	// as with runtimes that give a pod a virtual machine; or if it lies outside of this
	// process's cgroup namespace and no mount shows it.
	Path string
	// ID is its number in the v2 hierarchy, as bpf_get_current_cgroup_id returns
	// it; 0 if it is not in that or no mount shows it.
	ID uint64
}

// Locate finds the cgroup of a container that pid is said to be a process of. ok is
// false if it is not, or not any more: there is no such process, it is in another
// cgroup, or its cgroup was removed.
func (l *Locator) Locate(pid int, podUID, containerID string) (at Located, ok bool) {
	data, err := os.ReadFile(fmt.Sprintf("%s/%d/cgroup", l.proc, pid))
	if err != nil {
		return Located{}, false
	}
	best, bestRank := membership{}, 0
	for line := range bytes.Lines(data) {
		m, known := parseMembership(string(bytes.TrimRight(line, "\n")))
		if !known {
			continue
		}
		path, inside := containerCgroup(m.path, containerID)
		if !inside {
			ref, _ := trigger.ParseCgroupPath(m.path)
			ok = ok || ref.ContainerID == "" && podUID != "" && ref.PodUID() == podUID
			continue
		}
		m.path = path
		if rank := m.rank(); best.path == "" || rank < bestRank {
			best, bestRank = m, rank
		}
	}
	if best.path == "" {
		return Located{}, ok
	}
	return l.resolve(best), true
}

// resolve turns a path as /proc shows it into one from the root, and finds the ID.
func (l *Locator) resolve(m membership) Located {
	var at Located
	up, rest := climbs(m.path)
	if up == 0 {
		at.Path = m.path
	}
	layout, err := l.layout()
	if err != nil {
		return at
	}
	h, ok := m.mount(layout)
	if !ok {
		return at
	}
	dir, ok := l.dir(h, up, rest)
	if !ok {
		return at
	}
	if h.Root != "/" {
		at.Path = "/" + h.Prefix(dir)
	}
	if h.Version == 2 {
		if info, err := os.Stat(dir); err == nil {
			at.ID = ID(info)
		}
	}
	return at
}

// dir is where a mount shows the cgroup that lies at rest, up levels above this
// process's namespace.
func (l *Locator) dir(h Hierarchy, up int, rest string) (string, bool) {
	if h.Root == "/" {
		return filepath.Join(h.Mountpoint, rest), up == 0
	}
	if !h.above() {
		return "", false
	}
	// The mount begins so many levels further up. What the cgroups on the way down to
	// rest are called, the kernel does not tell, but they are this process's own.
	levels, _ := climbs(h.Root)
	levels -= up
	if levels <= 0 {
		return filepath.Join(h.Mountpoint, rest), levels == 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if above, ok := l.above[levels]; ok {
		dir := filepath.Join(h.Mountpoint, above, rest)
		_, err := os.Lstat(dir)
		return dir, err == nil
	}
	matches, _ := filepath.Glob(quote(h.Mountpoint) + strings.Repeat("/*", levels) + quote(rest))
	if len(matches) != 1 {
		return "", false
	}
	l.above[levels] = strings.TrimSuffix(h.Prefix(matches[0]), rest)
	return matches[0], true
}

// quote makes a pattern for [filepath.Glob] that stands for s alone. systemd's
// names have backslashes.
func quote(s string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(s)
}

// climbs splits a path that begins with .. into the number of those and the rest.
func climbs(path string) (up int, rest string) {
	for rest = path; rest == "/.." || strings.HasPrefix(rest, "/../"); up++ {
		rest = rest[len("/.."):]
	}
	return up, rest
}

// membership is a line of /proc/PID/cgroup: the cgroup in one hierarchy.
type membership struct {
	controllers []string // nil in v2
	path        string
}

// parseMembership reads a line; ok is false for a cgroup that was removed.
func parseMembership(line string) (m membership, ok bool) {
	id, line, _ := strings.Cut(line, ":")
	controllers, path, ok := strings.Cut(line, ":")
	if !ok || strings.HasSuffix(path, " (deleted)") {
		return membership{}, false
	}
	m.path = path
	if id != "0" {
		m.controllers = strings.Split(controllers, ",")
	}
	return m, true
}

// rank is lowest for the hierarchy whose path tells most.
func (m membership) rank() int {
	if m.controllers == nil {
		return -1
	}
	return controllerRank(Hierarchy{Controllers: m.controllers})
}

// mount finds a mount of the hierarchy, of several the one that shows most.
func (m membership) mount(layout Layout) (h Hierarchy, ok bool) {
	if m.controllers == nil && layout.V2 != nil {
		return *layout.V2, true
	}
	for _, v1 := range layout.V1 { // these are in that order
		if m.controllers != nil && slices.Contains(v1.Controllers, m.controllers[0]) {
			return v1, true
		}
	}
	return Hierarchy{}, false
}

// containerCgroup cuts a path off after the cgroup of a container, which may have
// made more below it. ok is false when it does not lead there.
func containerCgroup(path, containerID string) (cut string, ok bool) {
	if containerID == "" {
		return "", false
	}
	for end := 0; end < len(path); {
		begin := end + 1
		if i := strings.IndexByte(path[begin:], '/'); i >= 0 {
			end = begin + i
		} else {
			end = len(path)
		}
		// The ID alone, or a unit's name that ends in it: cri-containerd-<ID>.scope;
		// slice:cri-containerd:<ID>.
		prefix, found := strings.CutSuffix(strings.TrimSuffix(path[begin:end], ".scope"), containerID)
		if found && (prefix == "" || strings.ContainsAny(prefix[len(prefix)-1:], "-:")) {
			return path[:end], true
		}
	}
	return "", false
}
