//go:build unix

package cgroupfs

import (
	"io/fs"
	"syscall"
)

// ID returns the number of the cgroup whose directory info describes: the inode
// number is the kernel's ID of the cgroup, on v1 and v2. It is 0 if unknown.
func ID(info fs.FileInfo) uint64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Ino
	}
	return 0
}
