//go:build !unix

package cgroupfs

import "io/fs"

// ID is 0: there are no inode numbers here.
func ID(fs.FileInfo) uint64 { return 0 }
