package bpf

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Kind says what a [Record] tells.
type Kind uint32

// The kinds of record; the values are those of enum kind in c/record.h.
const (
	// KindStarted: the workload of a container execed.
	KindStarted Kind = 1
	// KindExited: the last thread of a container's workload ended.
	KindExited Kind = 2
	// KindEmpty: a container's cgroup lost its last process, and the end of its
	// workload had not been told just before.
	KindEmpty Kind = 3
)

// String returns a name for logs.
func (k Kind) String() string {
	switch k {
	case KindStarted:
		return "started"
	case KindExited:
		return "exited"
	case KindEmpty:
		return "empty"
	default:
		return fmt.Sprintf("kind %d", uint32(k))
	}
}

// Cgroup names a cgroup for the kernel. IDs are unique within one hierarchy only.
type Cgroup struct {
	// ID is the inode number of the cgroup's directory.
	ID uint64
	// Hierarchy is 0 for v2, else the number in /proc/PID/cgroup.
	Hierarchy uint32
}

// Record is what the probe tells of one container.
type Record struct {
	Kind Kind
	// Ktime is when it happened: nanoseconds of CLOCK_MONOTONIC.
	Ktime uint64
	// Cgroup is the container's own cgroup, also when the process was in one below.
	Cgroup Cgroup
	// TGID is the workload's process ID in the host's PID namespace; 0 for KindEmpty.
	TGID uint32
	// Path is the path of Cgroup as /proc/PID/cgroup on the host would show it. Of one with
	// more than 12 levels the innermost are there.
	Path string
}

// The layout of struct record in c/record.h. A test compares it with the BTF of the
// object.
const (
	offKtime      = 0
	offCgroup     = 8
	offHierarchy  = 16
	offTGID       = 20
	offKind       = 24
	offNamesLen   = 28
	offNamesCount = 30
	offNames      = 32
	namesRoom     = 1280
)

var errBadRecord = errors.New("malformed record from the probe")

// decode reads what the kernel wrote, in this host's byte order.
func (r *Record) decode(raw []byte) error {
	if len(raw) < offNames {
		return fmt.Errorf("%w: %d bytes, at least %d expected", errBadRecord, len(raw), offNames)
	}
	order := binary.NativeEndian
	*r = Record{
		Kind:   Kind(order.Uint32(raw[offKind:])),
		Ktime:  order.Uint64(raw[offKtime:]),
		Cgroup: Cgroup{ID: order.Uint64(raw[offCgroup:]), Hierarchy: order.Uint32(raw[offHierarchy:])},
		TGID:   order.Uint32(raw[offTGID:]),
	}
	names, used := raw[offNames:], int(order.Uint16(raw[offNamesLen:]))
	if used > len(names) {
		return fmt.Errorf("%w: names of %d bytes in room of %d", errBadRecord, used, len(names))
	}
	r.Path = joinNames(names[:used])
	return nil
}

// joinNames makes a path of names that come leaf first, each ended by a NUL.
func joinNames(names []byte) string {
	path := make([]byte, len(names))
	at := len(path)
	for len(names) > 0 {
		end := 0
		for end < len(names) && names[end] != 0 {
			end++
		}
		if at < end+1 {
			break // the last name had no NUL
		}
		at -= end
		copy(path[at:], names[:end])
		at--
		path[at] = '/'
		names = names[min(end+1, len(names)):]
	}
	return string(path[at:])
}
