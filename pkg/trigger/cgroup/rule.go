package cgroup

import (
	"path"
	"strings"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/trigger"
)

// role says what a directory is to the source. It decides what is watched:
//
//	role       the directory          its children          cgroup.events
//	root       watched                by the rules          –
//	candidate  watched, if it fits    by the rules          –
//	kubepods   watched                all                   –
//	pod        watched                containers            –
//	container  only one of no pod     by the rules, if so   watched (v2)
//	none       not watched            not looked at         –
//
// A container of no pod and no CRI runtime may be the node of kind or minikube,
// hence a candidate as well. What a CRI's container runs inside of it is the
// business of another runtime.
type role uint8

const (
	roleNone role = iota
	roleRoot
	roleCandidate
	roleKubepods
	rolePod
	roleContainer
)

// maxDepth is how far below the root of a tree, or below a container of no pod, a
// candidate may be: user.slice/user-1000.slice/user@1000.service/app.slice/x.service
// is where a rootless runtime runs.
const maxDepth = 5

// notParents ends the names of systemd's units that have no containers below
// them. A scope that is a container was recognised before.
var notParents = [...]string{".scope", ".mount", ".automount", ".swap", ".socket", ".timer", ".path", ".device", ".target"}

// classify gives the directory rel, a child of parent, its role.
func classify(parent *node, rel string) (role, trigger.CgroupRef) {
	name := path.Base(rel)
	if strings.HasPrefix(name, "cgroup.") {
		return roleNone, trigger.CgroupRef{} // a file that was written to
	}
	ref, ok := trigger.ParseCgroupPath(rel)
	switch {
	case ok && !ref.Nested && ref.ContainerID != "":
		return roleContainer, ref
	case ok && !ref.Nested:
		return rolePod, ref
	case parent.role == rolePod, parent.role == roleContainer && !parent.mayBeNode():
		return roleNone, ref
	case trigger.IsKubepods(name):
		return roleKubepods, ref
	case parent.role == roleKubepods:
		// The level of the QoS classes; there is none below it.
		if trigger.IsKubepods(path.Base(parent.rel)) {
			return roleKubepods, ref
		}
		return roleNone, ref
	case parent.depth >= maxDepth:
		return roleNone, ref
	}
	for _, suffix := range notParents {
		if strings.HasSuffix(name, suffix) {
			return roleNone, ref
		}
	}
	// A service may make any number of cgroups for its own purposes. A user's
	// systemd is a service too, and what it makes are slices.
	if strings.HasSuffix(parent.rel, ".service") && !strings.HasSuffix(name, ".slice") {
		return roleNone, ref
	}
	return roleCandidate, ref
}
