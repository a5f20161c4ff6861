package testruntime

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Check says what keeps a runtime from being started on this host, as far as that
// can be told without trying.
func Check() error {
	if os.Geteuid() != 0 {
		return errors.New("a container runtime needs root")
	}
	// Root in a container lacks the one or the other.
	if !mayAdminister() {
		return errors.New("a container runtime needs CAP_SYS_ADMIN")
	}
	points := cgroupMounts()
	if len(points) == 0 {
		return errors.New("no cgroup file system is mounted")
	}
	if err := unix.Access(points[0], unix.W_OK); err != nil {
		return fmt.Errorf("the cgroup file system at %s is not writable: %w", points[0], err)
	}
	return nil
}

func mayAdminister() bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	err := unix.Capget(&header, &data[0])
	return err == nil && data[0].Effective&(1<<unix.CAP_SYS_ADMIN) != 0
}

// tryLock takes f's exclusive lock unless someone else has it. It belongs to the
// open file, so it is held until the file is closed.
func tryLock(f *os.File) (bool, error) {
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, unix.EWOULDBLOCK):
			return false, nil
		case !errors.Is(err, unix.EINTR):
			return false, err
		}
	}
}

// openNoFollow opens a file for reading and writing, but no symbolic link, and waits for no
// one at the other end of a pipe.
func openNoFollow(name string) (*os.File, error) {
	return os.OpenFile(name, os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
}

func ownedByUs(info os.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Geteuid()
}

// daemonAttr has the daemon die with the thread that starts it, and not with the
// terminal's Ctrl-C: the owner stops it in its own time.
func daemonAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// A mount is one line of mountinfo.
type mount struct{ point, fstype string }

// mounts lists this process's mounts in the order in which they were made.
func mounts() ([]mount, error) {
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	var all []mount
	for line := range strings.Lines(string(data)) {
		// 36 35 98:0 /root /point rw,noatime shared:1 - ext3 /dev/root rw
		before, after, ok := strings.Cut(line, " - ")
		left, right := strings.Fields(before), strings.Fields(after)
		if !ok || len(left) < 5 || len(right) < 1 {
			return nil, fmt.Errorf("mountinfo: unexpected line %q", line)
		}
		all = append(all, mount{point: unescape.Replace(left[4]), fstype: right[0]})
	}
	return all, nil
}

// mountsBelow returns the mount points below dir, the last made first.
func mountsBelow(dir string) ([]string, error) {
	all, err := mounts()
	if err != nil {
		return nil, err
	}
	var points []string
	for i := len(all) - 1; i >= 0; i-- {
		if strings.HasPrefix(all[i].point, dir+"/") {
			points = append(points, all[i].point)
		}
	}
	return points, nil
}

func unmount(point string) error {
	err := unix.Unmount(point, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
	if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
		return &os.PathError{Op: "unmount", Path: point, Err: err}
	}
	return nil
}

// cgroupMounts returns where cgroup hierarchies are mounted: one place for pure
// cgroup v2, several for v1 and for hybrid hosts.
func cgroupMounts() []string {
	all, err := mounts()
	if err != nil {
		return nil
	}
	var points []string
	seen := make(map[string]bool)
	for _, m := range all {
		// One hierarchy may be mounted at cpu,cpuacct with links cpu and cpuacct
		// to it; only the mounts themselves are listed.
		if (m.fstype == "cgroup" || m.fstype == "cgroup2") && !seen[m.point] {
			seen[m.point] = true
			points = append(points, m.point)
		}
	}
	return points
}

// A process is one that belongs to a runtime.
type process struct {
	pid     int
	command string
}

// daemonsOf returns the processes of containerd, its shims, runc and ctr that were
// started for the runtime in dir.
func daemonsOf(dir string) ([]process, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	names := make(map[string]bool)
	for _, t := range tools() {
		names[t.name()] = true
	}
	// A person's crictl may well be told the runtime's endpoint.
	delete(names, "crictl")
	var found []process
	for _, e := range entries {
		var pid int
		if _, err := fmt.Sscanf(e.Name(), "%d", &pid); err != nil {
			continue
		}
		cmdline, err := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		if err != nil || len(cmdline) == 0 {
			continue // it ended, or is a kernel thread or a zombie
		}
		args := strings.Split(strings.TrimSuffix(string(cmdline), "\x00"), "\x00")
		if !names[filepath.Base(args[0])] {
			continue
		}
		for _, arg := range args[1:] {
			if strings.HasPrefix(arg, dir+"/") {
				found = append(found, process{pid: pid, command: strings.Join(args, " ")})
				break
			}
		}
	}
	return found, nil
}

func kill(pid int) error {
	if err := unix.Kill(pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("kill %d: %w", pid, err)
	}
	return nil
}
