package ebpf

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// process is what /proc/PID/stat says of one.
type process struct {
	pid, parent int
	// started is the time of its fork, in clock ticks since boot.
	started uint64
	state   byte
	// threads are those not yet reaped, the leader included.
	threads int
}

// ended reports whether the kernel has told the process's end: a leader that is a zombie
// while other threads live has not ended the process.
func (p process) ended() bool {
	return (p.state == 'Z' || p.state == 'X') && p.threads <= 1
}

func readProcess(proc string, pid int) (process, error) {
	stat, err := os.ReadFile(filepath.Join(proc, strconv.Itoa(pid), "stat"))
	if err != nil {
		return process{}, err
	}
	return parseStat(pid, stat)
}

// parseStat reads the fields by their place after the command's name, which may itself hold
// blanks and parentheses. See proc_pid_stat(5).
func parseStat(pid int, stat []byte) (process, error) {
	end := bytes.LastIndexByte(stat, ')')
	fields := bytes.Fields(stat[end+1:])
	if end < 0 || len(fields) < 20 || len(fields[0]) != 1 {
		return process{}, fmt.Errorf("/proc/%d/stat reads %q", pid, stat)
	}
	p := process{pid: pid, state: fields[0][0]}
	var errs [3]error
	p.parent, errs[0] = strconv.Atoi(string(fields[1]))
	p.threads, errs[1] = strconv.Atoi(string(fields[17]))
	p.started, errs[2] = strconv.ParseUint(string(fields[19]), 10, 64)
	for _, err := range errs {
		if err != nil {
			return process{}, fmt.Errorf("/proc/%d/stat: %w", pid, err)
		}
	}
	return p, nil
}

// workload picks the process that makes up the container out of all in its cgroup: the
// oldest of those that something outside of it started. Younger ones of that kind are exec
// probes and `kubectl exec`, or were left behind by their parent in a pod with hostPID.
func workload(inside []process) (process, bool) {
	pids := make(map[int]bool, len(inside))
	for _, p := range inside {
		pids[p.pid] = true
	}
	var found process
	for _, p := range inside {
		if p.ended() || pids[p.parent] {
			continue
		}
		// Ticks are coarse: of two in one tick the lower number is mostly the older.
		if found.pid == 0 || p.started < found.started || p.started == found.started && p.pid < found.pid {
			found = p
		}
	}
	return found, found.pid != 0
}
