package cgrouptree

import (
	"path"
	"strings"

	"github.com/hybrid-pleg/hybrid-pleg/internal/embedded"
)

// Path is the path of a container's cgroup within the hierarchy, with a leading
// slash. A parent that ends in .slice is laid out as systemd does it, by
// containerd's conventions; any other as it is written.
func Path(cg embedded.Cgroup) string {
	if isSlice(cg.Parent) {
		return path.Join(podPath(cg.Parent), "cri-containerd-"+cg.ID+".scope")
	}
	return path.Join(podPath(cg.Parent), cg.ID)
}

func isSlice(parent string) bool { return strings.HasSuffix(parent, ".slice") }

// podPath is the path of a parent. It can't lead out of the hierarchy, whatever
// a client gave.
func podPath(parent string) string {
	if !isSlice(parent) {
		return path.Clean("/" + parent)
	}
	// a-b-c.slice lies in a-b.slice, which lies in a.slice.
	name := strings.TrimSuffix(path.Base(path.Clean("/"+parent)), ".slice")
	out := "/"
	for i := 0; i <= len(name); i++ {
		if i == len(name) || name[i] == '-' {
			out = path.Join(out, name[:i]+".slice")
		}
	}
	return out
}
