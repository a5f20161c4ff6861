package arm

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// childAttr has a child asked to end when the thread ends that starts it, and not by the
// terminal's Ctrl-C.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}

// CPUTime is the processor time that a process has taken so far, threads that have
// ended included, to the nanosecond: the kernel keeps a clock for each process, whose
// number is made of its ID (MAKE_PROCESS_CPUCLOCK of <linux/posix-timers.h>). /proc
// tells hundredths of seconds only.
func CPUTime(pid int) (time.Duration, error) {
	const cpuclockSched = 2
	var ts unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|cpuclockSched), &ts); err != nil {
		return 0, fmt.Errorf("processor time of process %d: %w", pid, err)
	}
	return time.Duration(ts.Nano()), nil
}

// PeakMemory is the most memory that a process has held since ResetPeak, in bytes.
func PeakMemory(pid int) (int64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	_, after, ok := strings.Cut(string(status), "\nVmHWM:")
	fields := strings.Fields(after)
	if !ok || len(fields) < 2 || fields[1] != "kB" {
		return 0, fmt.Errorf("/proc/%d/status tells no VmHWM", pid)
	}
	kb, err := strconv.ParseInt(fields[0], 10, 64)
	return kb << 10, err
}

// ResetPeak makes PeakMemory begin anew. Where the kernel does not let us, the peak is
// that of the process's life, which is an upper bound.
func ResetPeak(pid int) {
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0)
}

// ListenerPid finds the process that listens on a unix socket, which is the runtime. 0:
// it is not to be known, or systemd listens in its stead.
func ListenerPid(path string) int {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0
	}
	defer unix.Close(fd)
	if err := unix.Connect(fd, &unix.SockaddrUnix{Name: path}); err != nil {
		return 0
	}
	cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil || cred.Pid <= 1 {
		return 0
	}
	return int(cred.Pid)
}

// Running reports whether a program of this name runs on the host.
func Running(name string) bool {
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		if comm, err := os.ReadFile("/proc/" + e.Name() + "/comm"); err == nil && string(bytes.TrimSpace(comm)) == name {
			return true
		}
	}
	return false
}
