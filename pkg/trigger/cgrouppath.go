package trigger

import "strings"

// CgroupClass says what kind of thing a cgroup path leads to, and with it how
// much a hint about it is worth.
type CgroupClass uint8

// The classes of cgroup.
const (
	// CgroupNone: neither a pod nor a container.
	CgroupNone CgroupClass = iota
	// CgroupPod: a pod, outside of any of its containers.
	CgroupPod
	// CgroupPodContainer: a container, or a sandbox, of a pod.
	CgroupPodContainer
	// CgroupCRIContainer: a container without a pod above it, but named in a way
	// that only CRI runtimes use (cri-containerd-ID.scope, crio-ID, k8s.io/ID).
	CgroupCRIContainer
	// CgroupOtherContainer: some container. Docker, podman or a container inside
	// a pod's container may have made it, and the CRI need not know of it.
	CgroupOtherContainer
)

// String returns a name for logs.
func (c CgroupClass) String() string {
	switch c {
	case CgroupPod:
		return "pod"
	case CgroupPodContainer:
		return "pod-container"
	case CgroupCRIContainer:
		return "cri-container"
	case CgroupOtherContainer:
		return "other-container"
	default:
		return "none"
	}
}

// CgroupRef is the pod and container that a cgroup belongs to. Its strings are
// parts of the path it was read from.
type CgroupRef struct {
	// ContainerID is 64 hexadecimal digits; empty at pod level. It may be a
	// sandbox's.
	ContainerID string
	Class       CgroupClass
	// Nested says that the path leads below the cgroup which gave the result:
	// one that the workload, crun or an init inside the container made.
	Nested bool

	rawUID string
}

// PodUID is the pod's UID as the API server and the runtime spell it, or empty.
// It allocates only when the path spells it differently, which the kubelet's
// systemd driver does ('_' for '-').
func (r CgroupRef) PodUID() string {
	if strings.Contains(r.rawUID, escapedDash) {
		return strings.ReplaceAll(r.rawUID, escapedDash, "-")
	}
	return strings.ReplaceAll(r.rawUID, "_", "-")
}

// HasPod reports whether a pod UID is known, without allocating.
func (r CgroupRef) HasPod() bool { return r.rawUID != "" }

// CRI reports whether the cgroup is known to be a matter of the CRI: a pod, its
// container, or a container named as only CRI runtimes do.
func (r CgroupRef) CRI() bool {
	return r.Class == CgroupPod || r.Class == CgroupPodContainer || r.Class == CgroupCRIContainer
}

// IsKubepods reports whether name, the last element of a path, is that of the
// cgroup above all pods of a kubelet: "kubepods", "kubepods.slice" or, with the
// kubelet's own --cgroup-root, "kubelet-kubepods.slice".
func IsKubepods(name string) bool {
	name = strings.TrimSuffix(name, ".slice")
	return name == "kubepods" || strings.HasSuffix(name, "-kubepods")
}

const (
	containerIDLen = 64
	// escapedDash is systemd's spelling of '-' where a plain one would mean a
	// level of the hierarchy.
	escapedDash = `\x2d`
	// deletedMark ends the path in /proc/PID/cgroup of a process whose cgroup was
	// removed (v2).
	deletedMark = " (deleted)"
)

// ParseCgroupPath finds the pod and the container that a cgroup belongs to. path
// is as in /proc/PID/cgroup or relative to the root of a hierarchy; it need not
// start at the host's root. ok is false when it leads to neither.
//
// The rules, from the root towards the leaf:
//
//   - The innermost pod and container win, so that the node container of kind
//     and minikube does not hide what runs inside.
//   - A pod is pod<UID>, alone or at the end of a name with dashes, with or without
//     ".slice". A UID is a UUID (its dashes may be '_' or systemd's \x2d) or the
//     32 hexadecimal digits of a static pod.
//   - A container is 64 lower-case hexadecimal digits, alone or after a dash, with or
//     without ".scope". Other units that carry an ID (.mount; .service, in which
//     podman runs health checks; .slice of a podman pod) are none.
//   - slice:prefix:ID is what a runtime with the cgroupfs driver makes of a
//     systemd path: both parts count.
//   - A conmon scope or mount unit outside of a container belongs to nobody.
//   - Anything else below a container belongs to it. Except that a systemd tree
//     below a container which no pod and no CRI prefix vouches for makes it a node
//     of its own: its services are not a container's.
//
// It does not allocate, and the result holds parts of path.
func ParseCgroupPath(path string) (ref CgroupRef, ok bool) {
	path = strings.TrimSuffix(path, deletedMark)
	var parent string
	for path != "" {
		var name string
		name, path, _ = strings.Cut(path, "/")
		switch name {
		case "", ".":
			continue
		case "..":
			// A cgroup namespace puts these in front of what lies outside of it. In the
			// middle, no kernel writes them.
			if parent != "" {
				return CgroupRef{}, false
			}
			continue
		}
		if !ref.descend(parent, name) {
			return CgroupRef{}, false
		}
		parent = name
	}
	return ref, ref.Class != CgroupNone
}

// descend takes the reference from the cgroup parent to its child name. False
// says that whatever lies there belongs to nobody.
func (r *CgroupRef) descend(parent, name string) bool {
	slice, isSlice := strings.CutSuffix(name, ".slice")
	if IsKubepods(name) {
		*r = CgroupRef{} // a kubelet's root: what lies above is its node
		return true
	}

	podPart, unit := slice, name
	if i := strings.IndexByte(name, ':'); i >= 0 {
		podPart, unit = strings.TrimSuffix(name[:i], ".slice"), name[i+1:]
	}
	found := false
	if prefix, uid := cutPodUID(podPart); uid != "" && (r.ContainerID == "" || strings.Contains(prefix, "kubepods")) {
		*r = CgroupRef{Class: CgroupPod, rawUID: uid}
		found = true
	}
	if isSlice {
		unit = ""
	}

	prefix, id, kind := cutContainerID(unit)
	switch {
	case kind == unitContainer:
		switch {
		case r.Class == CgroupPod:
			r.Class = CgroupPodContainer
		case parent == "k8s.io" || prefix == "crio" || strings.HasPrefix(prefix, "cri-"):
			r.Class = CgroupCRIContainer
		default:
			r.Class = CgroupOtherContainer
		}
		r.ContainerID, r.Nested = id, false
	case kind == unitHelper && r.ContainerID == "":
		return false
	case found:
	case r.Class == CgroupOtherContainer && r.rawUID == "" && (isSlice || strings.HasSuffix(name, ".service")):
		*r = CgroupRef{}
	case r.Class != CgroupNone:
		r.Nested = true
	}
	return true
}

// cutPodUID splits "kubepods-burstable-pod<UID>" before "pod". The UID is empty
// when there is none.
func cutPodUID(s string) (prefix, uid string) {
	const mark = "pod"
	for _, form := range uidForms {
		i := len(s) - form.length
		if i < len(mark) || s[i-len(mark):i] != mark {
			continue
		}
		prefix, uid = s[:i-len(mark)], s[i:]
		if (prefix == "" || prefix[len(prefix)-1] == '-') && form.matches(uid) {
			return prefix, uid
		}
	}
	return "", ""
}

// uidForm is a way to write a pod's UID: groups of digits with a separator, or
// all digits.
type uidForm struct {
	length    int
	separator string
}

const uidDigits = 32

var uidForms = [...]uidForm{
	{uidDigits + 4, "-"},
	{uidDigits + 4, "_"},
	{uidDigits, ""},
	{uidDigits + 4*len(escapedDash), escapedDash},
}

func (f uidForm) matches(s string) bool {
	if f.separator == "" {
		return isHex(s, true)
	}
	for _, n := range [...]int{8, 4, 4, 4} {
		if s[n:n+len(f.separator)] != f.separator || !isHex(s[:n], true) {
			return false
		}
		s = s[n+len(f.separator):]
	}
	return isHex(s, true)
}

// unitKind is what the name of a cgroup with an ID in it stands for.
type unitKind uint8

const (
	unitOther unitKind = iota
	unitContainer
	unitHelper // the runtime's own: conmon, a mount
)

// cutContainerID splits "cri-containerd-<ID>.scope" into prefix and ID. The
// prefix also ends at a colon ("cri-containerd:<ID>").
func cutContainerID(unit string) (prefix, id string, kind unitKind) {
	if len(unit) < containerIDLen {
		return "", "", unitOther
	}
	kind = unitContainer
	if s, ok := strings.CutSuffix(unit, ".scope"); ok {
		unit = s
	} else if s, ok := strings.CutSuffix(unit, ".mount"); ok {
		unit, kind = s, unitHelper
	}
	i := len(unit) - containerIDLen
	if i < 0 || !isHex(unit[i:], false) {
		return "", "", unitOther
	}
	prefix, id = unit[:i], unit[i:]
	switch {
	case prefix == "":
	case prefix[i-1] == '-' || prefix[i-1] == ':':
		prefix = prefix[:i-1]
	case strings.HasSuffix(prefix, escapedDash):
		prefix = strings.TrimSuffix(prefix, escapedDash)
	default: // more than 64 digits, or a name of another kind
		return "", "", unitOther
	}
	if prefix == "conmon" || strings.HasSuffix(prefix, "-conmon") {
		kind = unitHelper
	}
	return prefix, id, kind
}

// isHex reports whether all of s are hexadecimal digits. Runtimes write IDs in
// lower case; the UID of a static pod is written by people, who may not.
//
// It looks up one bit a character, since the digits of an ID are random and
// branches on them are mispredicted: that would be most of the parser's time.
func isHex(s string, upper bool) bool {
	const (
		digits  uint64 = (1<<10 - 1) << '0'
		letters uint64 = (1<<6 - 1) << ('a' - 64)
		capital uint64 = (1<<6 - 1) << ('A' - 64)
	)
	bits := [4]uint64{digits, letters}
	if upper {
		bits[1] |= capital
	}
	all := uint64(1)
	for i := range len(s) {
		all &= bits[s[i]>>6] >> (s[i] & 63)
	}
	return all == 1
}
