package cgroupfs

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/trigger"
)

// Mode says which versions of cgroups a host uses.
type Mode string

// The modes.
const (
	Unavailable Mode = "unavailable" // nothing is mounted at /sys/fs/cgroup
	Legacy      Mode = "legacy"      // v1 alone
	Hybrid      Mode = "hybrid"      // v1 with the controllers, v2 at /sys/fs/cgroup/unified
	Unified     Mode = "unified"     // v2 alone
)

// Hierarchy is one mounted cgroup hierarchy.
type Hierarchy struct {
	// Version is 1 or 2.
	Version int
	// Mountpoint is the directory that shows the hierarchy's root.
	Mountpoint string
	// Root is the cgroup that the mount shows, as this process's cgroup namespace
	// names it: "/" is the namespace's root, "/../.." lies two levels above it.
	Root string
	// Controllers are those of a v1 hierarchy; "name=systemd" stands for systemd's
	// own, which has none.
	Controllers []string
}

// Prefix turns a directory at or below the mount point into the path of its
// cgroup within the hierarchy. It is empty for the mount point itself.
func (h Hierarchy) Prefix(dir string) string {
	rel, err := filepath.Rel(h.Mountpoint, dir)
	if err != nil || rel == "." || !filepath.IsLocal(rel) {
		return ""
	}
	return filepath.ToSlash(rel)
}

// Contains reports whether dir is the mount point or lies below it.
func (h Hierarchy) Contains(dir string) bool {
	rel, err := filepath.Rel(h.Mountpoint, dir)
	return err == nil && filepath.IsLocal(rel)
}

// whole reports whether the mount shows all of the hierarchy that this process
// may ever see: the root of its namespace or something above.
func (h Hierarchy) whole() bool { return h.Root == "/" || h.above() }

// above reports whether the mount shows a cgroup above this process's namespace:
// the host's cgroup file system, mounted into a container.
func (h Hierarchy) above() bool {
	return strings.HasPrefix(h.Root, "/..") && strings.Trim(h.Root, "/.") == ""
}

// Layout is what is mounted on this host, as this process sees it.
type Layout struct {
	Mode Mode
	// V2 is nil where there is no v2 hierarchy, or only one without containers.
	V2 *Hierarchy
	// V1 holds the v1 hierarchies, the one best watched first.
	V1 []Hierarchy
	// Mounts are all mounts of cgroup hierarchies, in the order of mounting.
	Mounts []Hierarchy
	// OwnNamespace says that this process has a cgroup namespace of its own, as
	// most containers have: mounts made in it hide all cgroups outside.
	OwnNamespace bool
	// InitOutside says that process 1 is outside of the namespace, so that the
	// host's containers must be as well.
	InitOutside bool
}

// Hierarchies returns the hierarchies in which to look for containers, the best
// first: v2 where there is one, and one of v1 where v1 is in use. A hybrid host
// has both, since it is up to the runtime whether it also enters v2 there.
//
// An error wraps [trigger.ErrUnsupported] and says what to mount.
func (l Layout) Hierarchies() ([]Hierarchy, error) {
	var found []Hierarchy
	if l.V2 != nil {
		found = append(found, *l.V2)
	}
	if len(l.V1) > 0 {
		found = append(found, l.V1[0])
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("no cgroup file system is mounted (mode %s): mount the host's /sys/fs/cgroup, or name another directory with --cgroup-root: %w",
			l.Mode, trigger.ErrUnsupported)
	}
	if !l.hidden(found[0]) {
		return found, nil
	}
	if !l.InitOutside && holdsContainers(found[0].Mountpoint) {
		return found, nil // the node itself is a container, as with kind
	}
	return nil, fmt.Errorf("%s shows only the cgroups below this process's own: run it in the host's cgroup namespace, "+
		"or mount the host's /sys/fs/cgroup into this container, at /host/sys/fs/cgroup say, where it will be found: %w",
		found[0].Mountpoint, trigger.ErrUnsupported)
}

// At returns the mount of a hierarchy that dir, an absolute path without symbolic
// links, belongs to.
func (l Layout) At(dir string) (h Hierarchy, ok bool) {
	for _, m := range l.Mounts {
		if m.Contains(dir) && len(m.Mountpoint) > len(h.Mountpoint) {
			h, ok = m, true
		}
	}
	return h, ok
}

// hidden reports whether containers may well run where this mount does not show
// them.
func (l Layout) hidden(h Hierarchy) bool {
	return l.OwnNamespace && !h.above() || !h.whole()
}

// holdsContainers reports whether there is a pod, a container or a kubelet's
// cgroup below root.
func holdsContainers(root string) bool {
	for _, pattern := range []string{"*kubepods*", "*/*kubepods*"} {
		matches, _ := filepath.Glob(filepath.Join(root, pattern)) // the patterns are well-formed
		if slices.ContainsFunc(matches, func(m string) bool { return trigger.IsKubepods(filepath.Base(m)) }) {
			return true
		}
	}
	errFound := errors.New("found")
	return errors.Is(Walk(root, "", func(Entry) error { return errFound }), errFound)
}

// controllerOrder lists v1 hierarchies, the best to watch first: runtimes make a
// container's cgroup in all of these, and kernels may lack any.
var controllerOrder = []string{"memory", "pids", "cpu", "cpuacct", "cpuset", "devices", "freezer", "blkio", "name=systemd"}

// newLayout picks out of all mounts those to work with.
func newLayout(mode Mode, mounts []Hierarchy, ownNamespace, initOutside bool) Layout {
	l := Layout{Mode: mode, Mounts: mounts, OwnNamespace: ownNamespace, InitOutside: initOutside}
	var v2, v1 []Hierarchy
	for _, m := range mounts {
		if m.Version == 2 {
			v2 = append(v2, m)
		} else {
			v1 = append(v1, m)
		}
	}
	if mode == Legacy && len(v1) > 0 {
		// A v2 hierarchy mounted somewhere on a v1 host (Cilium does that) has no
		// containers in it. A hybrid host's, seen from a container, may.
		v2 = slices.DeleteFunc(v2, func(h Hierarchy) bool {
			return !slices.ContainsFunc(v1, func(o Hierarchy) bool {
				return filepath.Dir(o.Mountpoint) == filepath.Dir(h.Mountpoint)
			})
		})
	}
	slices.SortStableFunc(v2, compare)
	if len(v2) > 0 {
		l.V2 = &v2[0]
	}
	slices.SortStableFunc(v1, func(a, b Hierarchy) int {
		if c := compareSight(a, b); c != 0 {
			return c
		}
		if c := controllerRank(a) - controllerRank(b); c != 0 {
			return c
		}
		return compare(a, b)
	})
	l.V1 = v1
	return l
}

// compareSight puts first what shows more.
func compareSight(a, b Hierarchy) int {
	sight := func(h Hierarchy) int {
		switch {
		case h.above():
			return 0
		case h.whole():
			return 1
		default:
			return 2
		}
	}
	return sight(a) - sight(b)
}

// compare puts first what shows more, then what is mounted where all expect it.
func compare(a, b Hierarchy) int {
	if c := compareSight(a, b); c != 0 {
		return c
	}
	usual := func(h Hierarchy) int {
		switch {
		case h.Mountpoint == mountRoot || h.Mountpoint == mountRoot+"/unified":
			return 0
		case strings.HasPrefix(h.Mountpoint, mountRoot+"/"):
			return 1
		default:
			return 2
		}
	}
	if c := usual(a) - usual(b); c != 0 {
		return c
	}
	return len(a.Mountpoint) - len(b.Mountpoint)
}

func controllerRank(h Hierarchy) int {
	best := len(controllerOrder)
	for _, c := range h.Controllers {
		if i := slices.Index(controllerOrder, c); i >= 0 {
			best = min(best, i)
		}
	}
	return best
}

const mountRoot = "/sys/fs/cgroup"
