package ebpf

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/bpf"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/trigger"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/trigger/cgroupfs"
)

// hostPIDs is what /proc/PID/ns/pid links to in the host's PID namespace
// (PROC_PID_INIT_INO of the kernel).
const hostPIDs = "pid:[4026531836]"

// seed tells the probe of the containers that run already, and logs how many there were. What
// keeps it from doing so is logged and no more: the end of such a container is still told
// when its cgroup empties. What it lacks is the end of a workload whose children live on, and
// the start of a container that was only created by now.
func (s *Source) seed(ctx context.Context, probe *bpf.Probe, where places, sink trigger.Sink) {
	count := s.takeOverAll(ctx, probe, where, sink)
	s.opts.logger().Info("ebpf: probe attached", "containers", count, "cgroup_v2", !where.withoutV2, "v1_controller", where.v1.Controller)
}

func (s *Source) takeOverAll(ctx context.Context, probe *bpf.Probe, where places, sink trigger.Sink) (count int) {
	log := s.opts.logger()
	switch own, err := os.Readlink("/proc/self/ns/pid"); {
	case err != nil || own != hostPIDs:
		log.Warn("ebpf: running containers are not taken over, because process IDs here are not the host's (use hostPID)", "namespace", own, "err", err)
		return 0
	case where.hidden != nil:
		log.Warn("ebpf: running containers are not taken over", "err", where.hidden)
		return 0
	}
	done := map[int]bool{}
	// v2 first, as in the kernel: a process that is in both goes by its v2 cgroup.
	for _, id := range slices.Sorted(maps.Keys(where.visible)) {
		h := where.visible[id]
		err := cgroupfs.Walk(h.Mountpoint, "", func(e cgroupfs.Entry) error {
			if e.Ref.ContainerID != "" && s.takeOver(probe, bpf.Cgroup{ID: e.ID, Hierarchy: id}, e, done, sink) {
				count++
			}
			return ctx.Err()
		})
		if err != nil && ctx.Err() == nil {
			log.Warn("ebpf: not all running containers are taken over", "root", h.Mountpoint, "err", err)
		}
	}
	return count
}

// takeOver makes the probe remember one container's workload, and reports whether it
// did. done holds the workloads found so far.
func (s *Source) takeOver(probe *bpf.Probe, cgroup bpf.Cgroup, e cgroupfs.Entry, done map[int]bool, sink trigger.Sink) bool {
	init, ok := workload(processes("/proc", e.Dir))
	if !ok || done[init.pid] {
		return false
	}
	done[init.pid] = true
	added, err := probe.Remember(cgroup, uint32(init.pid))
	if err != nil {
		s.opts.logger().Warn("ebpf: a running container is not taken over", "cgroup", e.Dir, "err", err)
		return false
	}
	if !added {
		return false // it got its first process after Attach
	}
	// It may have ended before the probe knew it. If after, this says so twice.
	now, err := readProcess("/proc", init.pid)
	if err == nil && now.started == init.started && !now.ended() {
		return true
	}
	if err := probe.Forget(cgroup); err != nil {
		s.opts.logger().Warn("ebpf: an ended container is not forgotten", "cgroup", e.Dir, "err", err)
	}
	sink.Signal(trigger.Signal{
		Source:      trigger.SourceEBPF,
		Kind:        trigger.KindExited,
		PodUID:      e.Ref.PodUID(),
		ContainerID: e.Ref.ContainerID,
		CgroupID:    cgroup.ID,
		Foreign:     !e.Ref.CRI(),
		At:          time.Now(),
	})
	return false
}

// processes reads those in a container's cgroup and in the cgroups its workload made below,
// save those of containers inside of it. One that goes meanwhile is left out.
func processes(proc, dir string) []process {
	pids, _ := cgroupfs.Procs(dir)
	var found []process
	for _, pid := range pids {
		if p, err := readProcess(proc, pid); err == nil {
			found = append(found, p)
		}
	}
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		// By its name alone, as in the kernel.
		if ref, ok := trigger.ParseCgroupPath(e.Name()); ok && ref.ContainerID != "" {
			continue
		}
		found = append(found, processes(proc, filepath.Join(dir, e.Name()))...)
	}
	return found
}
