package pleg

import (
	"github.com/hybrid-pleg/hybrid-pleg/pkg/relist"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/trigger/cgroupfs"
)

// newLocate finds containers in this host's cgroups.
func newLocate() relist.Locate {
	l := cgroupfs.NewLocator()
	return func(pid int, podUID, containerID string) (relist.Place, bool) {
		at, ok := l.Locate(pid, podUID, containerID)
		return relist.Place{CgroupPath: at.Path, CgroupID: at.ID}, ok
	}
}
