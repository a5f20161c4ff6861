package cgroupfs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/containerd/cgroups/v3"
)

// Detect finds out what is mounted on this host. An error means that /proc can't
// be read; a host without cgroups is no error.
func Detect() (Layout, error) {
	return detect("/proc", hostMode())
}

func hostMode() Mode {
	switch cgroups.Mode() {
	case cgroups.Unified:
		return Unified
	case cgroups.Hybrid:
		return Hybrid
	case cgroups.Legacy:
		return Legacy
	default:
		return Unavailable
	}
}

// initNamespace is what /proc/PID/ns/cgroup links to in the host's own cgroup
// namespace (PROC_CGROUP_INIT_INO of the kernel).
const initNamespace = "cgroup:[4026531835]"

func detect(proc string, mode Mode) (Layout, error) {
	f, err := os.Open(filepath.Join(proc, "self/mountinfo"))
	if err != nil {
		return Layout{}, fmt.Errorf("find the cgroup mounts: %w", err)
	}
	defer f.Close()
	mounts, err := parseMountinfo(f)
	if err != nil {
		return Layout{}, fmt.Errorf("find the cgroup mounts: %w", err)
	}
	if len(mounts) == 0 {
		mode = Unavailable // what is not cgroup2 would pass for legacy
	}
	// Kernels before 4.6, and those built without namespaces, have no such link.
	namespace, err := os.Readlink(filepath.Join(proc, "self/ns/cgroup"))
	own := err == nil && namespace != initNamespace
	// Process 1 may be hidden from an ordinary user: then nothing is known of it.
	first, _ := os.ReadFile(filepath.Join(proc, "1/cgroup"))
	return newLayout(mode, mounts, own, own && strings.Contains(string(first), ":/..")), nil
}
