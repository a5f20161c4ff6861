package arm

import (
	"slices"
	"strings"

	"github.com/hybrid-pleg/hybrid-pleg/internal/experiment/plan"
)

// Programs are what arms are run with.
type Programs struct {
	// Hybrid is hybrid-pleg itself, Kubelet the program kubelet-pleg; empty when there
	// is none.
	Hybrid, Kubelet string
}

// Target is what arms watch.
type Target struct {
	Endpoint string
	// CgroupRoot is where cgroups are mirrored by the embedded runtime; empty on a real
	// one.
	CgroupRoot string
}

// Command is the command line of an arm.
func Command(a *plan.Arm, p Programs, on Target) []string {
	endpoint := "--runtime-endpoint=" + on.Endpoint
	period := "--relist-period=" + a.Period.String()
	const metrics = "--http=127.0.0.1:0"
	switch a.Kind {
	case plan.KubeletGeneric:
		return []string{p.Kubelet, endpoint, period, metrics}
	case plan.KubeletEvented:
		return []string{p.Kubelet, endpoint, period, metrics, "--evented"}
	case plan.CRIEvents:
		return []string{p.Hybrid, "experiment", "arm", "events", endpoint}
	case plan.CRIPoll:
		return []string{p.Hybrid, "experiment", "arm", "poll", endpoint, "--period=" + a.Period.String()}
	}
	triggers := Triggers(a, on)
	args := []string{p.Hybrid, "run", endpoint, period, "--output=ndjson", "--listen=", metrics}
	if len(triggers) == 0 {
		return append(args, "--triggers=none")
	}
	args = append(args, "--triggers="+strings.Join(triggers, ","), "--relist-period-degraded="+a.PeriodDegraded.String())
	if on.CgroupRoot != "" {
		args = append(args, "--cgroup-root="+on.CgroupRoot)
	}
	return args
}

// Triggers are those that an arm can have: an embedded runtime's containers are no
// processes that ebpf could see.
func Triggers(a *plan.Arm, on Target) []string {
	triggers := slices.Clone(a.Triggers)
	if on.CgroupRoot != "" {
		triggers = slices.DeleteFunc(triggers, func(t string) bool { return t == "ebpf" })
	}
	return triggers
}
