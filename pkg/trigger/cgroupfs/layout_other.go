//go:build !linux

package cgroupfs

// Detect finds no cgroups: only Linux has them.
func Detect() (Layout, error) { return Layout{Mode: Unavailable}, nil }
