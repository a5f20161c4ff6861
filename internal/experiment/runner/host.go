package runner

import (
	"runtime"

	"github.com/hybrid-pleg/hybrid-pleg/internal/experiment/result"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/trigger/cgroupfs"
)

// facts are what there is to know of the host.
type facts struct {
	result.Host
	// memoryFree is in bytes, threadsFree a count; 0: not known.
	memoryFree, threadsFree int64
}

func hostFacts() facts {
	f := facts{Host: result.Host{
		Kernel: runtime.GOOS, CPUs: runtime.NumCPU(), GoVersion: runtime.Version(),
	}}
	if layout, err := cgroupfs.Detect(); err == nil {
		f.Cgroup = map[cgroupfs.Mode]string{
			cgroupfs.Legacy: "v1", cgroupfs.Hybrid: "hybrid", cgroupfs.Unified: "v2",
		}[layout.Mode]
	}
	f.fill()
	return f
}
