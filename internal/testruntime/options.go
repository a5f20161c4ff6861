package testruntime

import "io"

// Options says how a runtime is to be started. The zero value is fine for a test.
type Options struct {
	// Dir is the folder in which the runtime's private directory is made; empty
	// means the system's folder for temporary files. It must be short, since Unix
	// sockets live below it: 22 bytes at most. Remains of killed runtimes are
	// looked for in the same folder.
	Dir string

	// BinDir holds containerd, containerd-shim-runc-v2, ctr and runc. Empty means
	// that they are built from the tools/runtime module of the checkout around the
	// working directory, or taken from there when they are built already.
	BinDir string

	// ImageArchive is the docker-archive with the test image. Empty means that it
	// is made from the sources in the checkout.
	ImageArchive string

	// CgroupRoot is the cgroup above kubepods, like the kubelet's --cgroup-root.
	// Empty means one of the runtime's own, so that runtimes side by side do not
	// mix. The runtime owns that cgroup, or /kubepods when CgroupRoot is "/": it
	// must not exist at the start and is removed at the end, but not by a later Sweep.
	CgroupRoot string

	// ExtraConfig is put at the end of containerd's configuration (TOML, version 3).
	ExtraConfig string

	// LogLevel is containerd's: trace, debug, info, warn, error. Empty means info.
	LogLevel string

	// Log receives containerd's log. It is always kept in the private directory
	// as well, and its end is part of the error when containerd does not start.
	Log io.Writer

	// Progress receives what is worth telling while binaries are built, which
	// takes minutes the first time. Nil means standard error.
	Progress io.Writer
}
