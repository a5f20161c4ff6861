package kerneltest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Kernel is one of Debian's kernels for cloud machines.
type Kernel struct {
	// Name is what to call it on the command line: "6.1", "6.1-arm64".
	Name string
	// Arch is Debian's name of the architecture: amd64 or arm64.
	Arch string
	// Package is the package that depends on the newest build, and Version how its version must
	// begin: the archive has several. Empty stands for the highest there is.
	Package, Version string
	// OneThread has a machine's processors take turns in one thread. On 7.x kernels two threads
	// of QEMU 7.2 crash now and then while the kernel patches its own text.
	OneThread bool
}

// kernels are all that are tried, the oldest first.
func kernels() []Kernel {
	return []Kernel{
		{Name: "5.10", Arch: "amd64", Package: "linux-image-cloud-amd64", Version: "5.10."},
		{Name: "6.1", Arch: "amd64", Package: "linux-image-cloud-amd64", Version: "6.1."},
		{Name: "6.12", Arch: "amd64", Package: "linux-image-6.12-cloud-amd64", Version: "6.12."},
		{Name: "newest", Arch: "amd64", Package: "linux-image-cloud-amd64", OneThread: true},
		{Name: "6.1-arm64", Arch: "arm64", Package: "linux-image-cloud-arm64", Version: "6.1."},
	}
}

// archiveParts are the parts of the archive that hold the kernels. The two of
// Debian 12 hold 6.1 and 6.12: security has them sooner, main is what mirrors have.
func archiveParts() []archivePart {
	return []archivePart{
		{path: "debian-security", suite: "bullseye-security"}, // 5.10
		{path: "debian", suite: "bookworm"},
		{path: "debian-security", suite: "bookworm-security"},
		{path: "debian", suite: "trixie-backports"}, // the newest
	}
}

type archivePart struct{ path, suite string }

// Layout is which versions of cgroups a machine has mounted, and how.
type Layout string

// The layouts.
const (
	V2     Layout = "v2"
	V1     Layout = "v1"
	Hybrid Layout = "hybrid"
)

// Run is one machine: a kernel with a layout, and what to do there.
type Run struct {
	Kernel Kernel
	Layout Layout
	// Part tells apart what is the same but for the suites; it is empty where nothing is.
	Part   string
	Suites []Suite
}

// Name names the run: "6.1 v2", "6.1 v2 probe".
func (r Run) Name() string {
	name := r.Kernel.Name + " " + string(r.Layout)
	if r.Part != "" {
		name += " " + r.Part
	}
	return name
}

// plan is every run of the matrix. The v1 layouts are on the oldest kernel: from 6.12 on
// Debian's lack controllers of v1, and the older one has more to fall back on.
func plan() []Run {
	byName := make(map[string]Kernel)
	for _, k := range kernels() {
		byName[k.Name] = k
	}
	probe := []Suite{suiteProbe(), suiteEBPF(), suiteCgroupfs(), suiteCgroup()}
	whole := append(slices.Clone(probe), suiteDaemon())
	return []Run{
		{Kernel: byName["5.10"], Layout: V2, Suites: whole},
		{Kernel: byName["5.10"], Layout: Hybrid, Suites: whole},
		{Kernel: byName["5.10"], Layout: V1, Suites: whole},
		{Kernel: byName["6.1"], Layout: V2, Suites: append(slices.Clone(whole), suiteLack(),
			suiteLockdown("integrity"), suiteLockdown("confidentiality"))}, // in this order, and last
		{Kernel: byName["6.12"], Layout: V2, Suites: whole},
		{Kernel: byName["newest"], Layout: V2, Suites: whole},
		{Kernel: byName["6.1-arm64"], Layout: V2, Suites: []Suite{suiteProbe()}},
	}
}

// shortPlan is what every change is tried with: one kernel, and of the whole only that each source
// finds containers alone. Two machines share it, so that it does not take long.
func shortPlan() []Run {
	for _, r := range plan() {
		if r.Kernel.Name == "6.1" {
			probe, rest := r, r
			probe.Part, probe.Suites = "probe", []Suite{suiteProbe(), suiteCgroupfs()}
			rest.Part, rest.Suites = "sources", []Suite{suiteEBPF(), suiteCgroup(), suiteAlone()}
			return []Run{probe, rest}
		}
	}
	return nil
}

// Choice names some of the runs, and of their suites. Empty lists stand for all.
type Choice struct{ Kernels, Layouts, Suites []string }

// All reports whether nothing is left out.
func (c Choice) All() bool { return len(c.Kernels)+len(c.Layouts)+len(c.Suites) == 0 }

// of picks what is named; a name that there is not is an error.
func (c Choice) of(runs []Run) ([]Run, error) {
	var kernelNames, layouts, suites []string
	for _, r := range runs {
		kernelNames, layouts = append(kernelNames, r.Kernel.Name), append(layouts, string(r.Layout))
		for _, s := range r.Suites {
			suites = append(suites, s.Name)
		}
	}
	if err := errors.Join(
		known("kernel", c.Kernels, kernelNames), known("layout", c.Layouts, layouts), known("suite", c.Suites, suites),
	); err != nil {
		return nil, err
	}
	named := func(names []string, name string) bool { return len(names) == 0 || slices.Contains(names, name) }
	var chosen []Run
	for _, r := range runs {
		r.Suites = slices.DeleteFunc(slices.Clone(r.Suites), func(s Suite) bool { return !named(c.Suites, s.Name) })
		if named(c.Kernels, r.Kernel.Name) && named(c.Layouts, string(r.Layout)) && len(r.Suites) > 0 {
			chosen = append(chosen, r)
		}
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("nothing is to be done for kernels %v, layouts %v and suites %v", c.Kernels, c.Layouts, c.Suites)
	}
	return chosen, nil
}

func known(what string, names, all []string) error {
	slices.Sort(all)
	for _, name := range names {
		if !slices.Contains(all, name) {
			return fmt.Errorf("there is no %s %q: give some of %s", what, name, strings.Join(slices.Compact(all), ", "))
		}
	}
	return nil
}
