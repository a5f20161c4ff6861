package ebpf

import (
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/bpf"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/trigger"
)

// toSignal says what a record means. The kernel looks at one name, the parser at the whole path
// and is stricter: a record may mean nothing.
func toSignal(rec *bpf.Record, at time.Time) (trigger.Signal, bool) {
	ref, ok := trigger.ParseCgroupPath(rec.Path)
	if !ok || ref.ContainerID == "" {
		return trigger.Signal{}, false
	}
	kind := trigger.KindExited // bpf.KindEmpty as well: whoever was left is gone
	if rec.Kind == bpf.KindStarted {
		kind = trigger.KindStarted
	}
	return trigger.Signal{
		Source:      trigger.SourceEBPF,
		Kind:        kind,
		PodUID:      ref.PodUID(),
		ContainerID: ref.ContainerID,
		CgroupID:    rec.Cgroup.ID,
		Foreign:     !ref.CRI(),
		At:          at,
	}, true
}

// backdate gives the time of something that happened when the kernel's clock stood at
// then, from readings of both clocks taken together. The result is not after now, and
// keeps its monotonic reading.
func backdate(now time.Time, kernelNow, then uint64) time.Time {
	if then >= kernelNow {
		return now
	}
	return now.Add(-time.Duration(kernelNow - then))
}
