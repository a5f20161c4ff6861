package ebpf

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/hybrid-pleg/hybrid-pleg/bpf"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/trigger/cgroupfs"
)

// places are the hierarchies in which the probe looks.
type places struct {
	// v1 is zero where the host has no v1 controller in use.
	v1 bpf.V1Hierarchy
	// withoutV2: no container is in v2.
	withoutV2 bool
	// visible are those of them that are mounted where this process can walk them, by
	// hierarchy number (0 is v2).
	visible map[uint32]cgroupfs.Hierarchy
	// hidden says why nothing is visible.
	hidden error
}

func (p places) options(ringSize uint32) bpf.Options {
	return bpf.Options{V1: p.v1, WithoutV2: p.withoutV2, RingSize: ringSize}
}

// controllers that every runtime enters on a v1 host, for when none is mounted here.
var controllers = []string{"memory", "pids", "cpu", "devices", "freezer", "cpuacct", "blkio", "cpuset"}

// findPlaces finds out which hierarchies this host uses. The kernel's own table counts:
// what this process has mounted only matters for finding what runs already.
func findPlaces(proc string) (places, error) {
	layout, err := cgroupfs.Detect()
	if err != nil {
		return places{}, err
	}
	table, err := os.ReadFile(filepath.Join(proc, "cgroups"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // a kernel without v1 may lack it
		return places{}, fmt.Errorf("find the cgroup hierarchies: %w", err)
	}
	return choosePlaces(layout, v1Hierarchies(string(table))), nil
}

// choosePlaces takes v2 wherever it may hold containers, and the first v1 hierarchy with
// a controller where there is one. On a hybrid host that is both: every runtime enters the
// v1 controllers there, but most enter v2 too, where only one needs to be looked at.
func choosePlaces(layout cgroupfs.Layout, v1 map[string]uint32) places {
	p := places{visible: map[uint32]cgroupfs.Hierarchy{}}
	_, p.hidden = layout.Hierarchies()
	for _, h := range layout.V1 {
		if i := slices.IndexFunc(h.Controllers, func(c string) bool { return v1[c] != 0 }); i >= 0 {
			p.v1 = bpf.V1Hierarchy{Controller: h.Controllers[i], ID: v1[h.Controllers[i]]}
			p.visible[p.v1.ID] = h
			break
		}
	}
	if p.v1.ID == 0 {
		if i := slices.IndexFunc(controllers, func(c string) bool { return v1[c] != 0 }); i >= 0 {
			p.v1 = bpf.V1Hierarchy{Controller: controllers[i], ID: v1[controllers[i]]}
		}
	}
	if layout.V2 != nil {
		p.visible[0] = *layout.V2
	}
	// Seen from a container without cgroup mounts, v2 may well be in use.
	p.withoutV2 = layout.V2 == nil && len(p.visible) > 0
	return p
}

// v1Hierarchies reads /proc/cgroups: the number of the v1 hierarchy of each controller
// that is in one.
func v1Hierarchies(table string) map[string]uint32 {
	found := map[string]uint32{}
	for s := bufio.NewScanner(strings.NewReader(table)); s.Scan(); {
		// name, hierarchy, number of cgroups, enabled
		fields := strings.Fields(s.Text())
		if len(fields) != 4 || strings.HasPrefix(fields[0], "#") || fields[3] != "1" {
			continue
		}
		if id, err := strconv.ParseUint(fields[1], 10, 32); err == nil && id != 0 {
			found[fields[0]] = uint32(id)
		}
	}
	return found
}
