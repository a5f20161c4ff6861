package runner

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// fill reads what Linux tells.
func (f *facts) fill() {
	var uname unix.Utsname
	if unix.Uname(&uname) == nil {
		f.Kernel = unix.ByteSliceToString(uname.Sysname[:]) + " " + unix.ByteSliceToString(uname.Release[:])
	}
	cpu := read("/proc/cpuinfo")
	f.CPU = strings.TrimSpace(field(cpu, "model name"))
	if strings.Contains(" "+field(cpu, "flags")+" ", " hypervisor ") {
		f.Virtual = strings.TrimSpace(read("/sys/class/dmi/id/sys_vendor"))
		if f.Virtual == "" {
			f.Virtual = "unknown hypervisor"
		}
	}
	memory := read("/proc/meminfo")
	f.MemoryMiB = int(kilobytes(memory, "MemTotal") >> 10)
	f.memoryFree = kilobytes(memory, "MemAvailable") << 10
	if limit := cgroupMemoryFree(); limit > 0 && limit < f.memoryFree {
		f.memoryFree = limit
	}
	load := strings.Fields(read("/proc/loadavg"))
	if len(load) > 3 {
		f.LoadBefore = strings.Join(load[:3], " ")
		_, total, _ := strings.Cut(load[3], "/")
		have, _ := strconv.ParseInt(total, 10, 64)
		most := min(number("/proc/sys/kernel/threads-max"), number("/proc/sys/kernel/pid_max"))
		if have > 0 && most > have {
			f.threadsFree = most - have
		}
	}
}

// cgroupMemoryFree is what the cgroup of this process leaves, on v2; 0: no bound is
// known.
func cgroupMemoryFree() int64 {
	most, used := number("/sys/fs/cgroup/memory.max"), number("/sys/fs/cgroup/memory.current")
	if most == 0 {
		return 0
	}
	return most - used
}

func read(path string) string {
	data, _ := os.ReadFile(path)
	return string(data)
}

func number(path string) int64 {
	n, _ := strconv.ParseInt(strings.TrimSpace(read(path)), 10, 64)
	return n
}

// field is the value of the first line "name : value".
func field(text, name string) string {
	for line := range strings.Lines(text) {
		key, value, ok := strings.Cut(line, ":")
		if ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func kilobytes(text, name string) int64 {
	var n int64
	_, _ = fmt.Sscanf(field(text, name), "%d kB", &n)
	return n
}

// freeDisk is how many bytes may still be written to where a directory is.
func freeDisk(dir string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(filepath.Clean(dir), &st); err != nil {
		return 0, err
	}
	return int64(st.Bavail) * st.Bsize, nil
}
