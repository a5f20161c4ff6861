// Package kerneltest runs the tests that have to do with the kernel on kernels that this
// machine does not run: in throw-away virtual machines, under emulation.
//
// Kernels come from Debian's archive, verified by apt with the host's keyring, and are kept in
// .cache/kernels; nothing of them is installed. A machine has the kernel, an initramfs with the
// few modules it needs, and a disk with test binaries and the container runtime of
// internal/testruntime. It is told by the kernel's command line which cgroup layout
// to set up and which suites to run, and answers through a virtio port:
//
//	@@ boot RELEASE SECONDS
//	@@ begin SUITE
//	…                          what the suite prints: "go test -v"
//	@@ end SUITE CODE
//	@@ done
//
// A line "matrix: SUBJECT: TEXT" of a suite goes into the table (see docs/kernels.md).
package kerneltest
