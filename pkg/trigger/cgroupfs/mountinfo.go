package cgroupfs

import (
	"bufio"
	"io"
	"strings"
)

// parseMountinfo returns the cgroup hierarchies in /proc/PID/mountinfo, in the
// order of mounting. Where mounts cover each other, the last one is what a path
// leads to: only that is returned.
func parseMountinfo(r io.Reader) ([]Hierarchy, error) {
	var found []Hierarchy
	s := bufio.NewScanner(r)
	s.Buffer(nil, 1<<20) // overlay mounts have very long lines
	for s.Scan() {
		// 40 30 0:37 / /sys/fs/cgroup/unified rw,relatime [optional…] - cgroup2 cgroup2 rw
		mount, super, ok := strings.Cut(s.Text(), " - ")
		m, t := strings.Fields(mount), strings.Fields(super)
		if !ok || len(m) < 5 || len(t) < 3 {
			continue
		}
		h := Hierarchy{Mountpoint: unescape(m[4]), Root: unescape(m[3])}
		found = dropMount(found, h.Mountpoint)
		switch t[0] {
		case "cgroup2":
			h.Version = 2
		case "cgroup":
			h.Version = 1
			h.Controllers = controllersOf(t[2])
		default:
			continue
		}
		found = append(found, h)
	}
	return found, s.Err()
}

func dropMount(mounts []Hierarchy, mountpoint string) []Hierarchy {
	for i, m := range mounts {
		if m.Mountpoint == mountpoint {
			return append(mounts[:i], mounts[i+1:]...)
		}
	}
	return mounts
}

// controllersOf picks the controllers out of a v1 hierarchy's mount options.
func controllersOf(options string) []string {
	var found []string
	for _, o := range strings.Split(options, ",") {
		switch name, _, hasValue := strings.Cut(o, "="); {
		case name == "name":
			found = append(found, o)
		case hasValue, o == "rw", o == "ro", o == "xattr", o == "noprefix", o == "clone_children",
			o == "cpuset_v2_mode", o == "favordynmods", o == "none":
		default:
			found = append(found, o)
		}
	}
	return found
}

// unescape undoes the kernel's octal escapes for what would break the line.
func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}
