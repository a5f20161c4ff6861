// Package cgroupfs knows what the kernel shows of cgroups in the file system:
// which hierarchies are mounted and where, which cgroups below them belong to
// containers, and what their files say.
//
//	layout, err := cgroupfs.Detect()
//	hierarchies, err := layout.Hierarchies()
//	for _, h := range hierarchies {
//		err = cgroupfs.Walk(h.Mountpoint, "", func(e cgroupfs.Entry) error { … })
//	}
//
// A [Locator] finds the cgroup of a container by its process.
//
// What is in a hierarchy is not cached: a cgroup may be gone by the time its files are read, which
// the functions report as [io/fs.ErrNotExist].
package cgroupfs
