package kerneltest

import (
	"fmt"
	"strings"
)

// Suite is a test binary and what to run of it.
type Suite struct {
	Name string
	// Package is the package's folder in the checkout; its tests run in the same folder in
	// the machine, with the testdata that it has.
	Package string
	// Run is go test's -run.
	Run string
	// Runtime: it needs the container runtime.
	Runtime bool
	// Lockdown is how the kernel is locked down before: integrity, confidentiality; empty to leave it.
	Lockdown string
	// Require names what must not be skipped for want of it (see internal/testutil).
	Require string
}

// The first four suites are the packages with parts that depend on the kernel; the others are
// tests of internal/e2e: the whole against containerd.

func suiteProbe() Suite { return Suite{Name: "probe", Package: "bpf", Require: "ebpf,cgroup"} }

func suiteEBPF() Suite {
	return Suite{Name: "ebpf", Package: "pkg/trigger/ebpf", Require: "ebpf,cgroup"}
}

func suiteCgroupfs() Suite {
	return Suite{Name: "cgroupfs", Package: "pkg/trigger/cgroupfs", Require: "cgroup"}
}

func suiteCgroup() Suite {
	return Suite{Name: "cgroup", Package: "pkg/trigger/cgroup", Require: "cgroup"}
}

// suiteDaemon finds starts and ends by each kernel source alone, and none in a storm of execs.
func suiteDaemon() Suite { return endToEnd("containerd", "^TestKernel$") }

// suiteAlone is the part of suiteDaemon that does not take long.
func suiteAlone() Suite { return endToEnd("alone", "^TestKernel$/^(ebpf|cgroup)$") }

// suiteLack takes from the daemon what it needs, one thing after the other.
func suiteLack() Suite { return endToEnd("lack", "^TestWhatIsLacking$") }

// suiteLockdown locks the machine's kernel down, which stays so.
func suiteLockdown(mode string) Suite {
	s := endToEnd("lockdown-"+mode, "^TestLockdown$")
	s.Lockdown = mode
	return s
}

func endToEnd(name, run string) Suite {
	return Suite{Name: name, Package: "internal/e2e", Run: run, Runtime: true, Require: "ebpf,cgroup,containerd"}
}

// binary is the name of the test binary of the suite's package.
func (s Suite) binary() string { return strings.ReplaceAll(s.Package, "/", "_") + ".test" }

// script is what the machine runs.
func (s Suite) script() string {
	var b strings.Builder
	fmt.Fprintf(&b, "cd /src/%s || exit 1\n", s.Package)
	if s.Lockdown != "" {
		fmt.Fprintf(&b, "echo %s >/sys/kernel/security/lockdown || exit 1\n", s.Lockdown)
	}
	fmt.Fprintf(&b, "export HYBRID_PLEG_TEST_REQUIRE=%s HYBRID_PLEG_TEST_BINARY=/src/bin/hybrid-pleg HYBRID_PLEG_TEST_EMULATED=1\n", s.Require)
	fmt.Fprintf(&b, "exec /tests/%s -test.v -test.short -test.timeout 10m", s.binary())
	if s.Run != "" {
		fmt.Fprintf(&b, " -test.run '%s'", s.Run)
	}
	b.WriteString("\n")
	return b.String()
}
