//go:build linux

package e2e

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hybrid-pleg/hybrid-pleg/internal/testruntime"
	"github.com/hybrid-pleg/hybrid-pleg/internal/testruntime/runtimetest"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/trigger/cgroupfs"
)

// lack is something that the daemon may have to do without.
type lack struct {
	name string
	// take takes it from this process, for the program that it then execs.
	take func() error
	// down are the sources that can't work then, and what must be said of each; all others work.
	down map[string]string
}

func lacks() []lack {
	return []lack{
		{"type information (BTF)", hide("/sys/kernel/btf"), map[string]string{"ebpf": "the kernel offers no type information"}},
		{"CAP_BPF", dropCapabilities, map[string]string{"ebpf": "not permitted"}},
		{"a cgroup file system", unmountCgroups, map[string]string{"cgroup": "no cgroup file system is mounted"}},
		{"the host's cgroup namespace, but with its /sys/fs/cgroup", ownNamespace, nil},
		{"the host's cgroup namespace", func() error {
			return errors.Join(ownNamespace(), unmountCgroups(), unix.Mount("cgroup2", cgroupRoot, "cgroup2", 0, ""))
		}, map[string]string{"cgroup": "shows only the cgroups below this process's own"}},
	}
}

const cgroupRoot = "/sys/fs/cgroup"

// lackEnv names what the test binary is to take from itself before it becomes the daemon.
const lackEnv = "HYBRID_PLEG_TEST_LACK"

func TestMain(m *testing.M) {
	name := os.Getenv(lackEnv)
	if name == "" {
		os.Exit(m.Run())
	}
	fmt.Fprintln(os.Stderr, become(name, os.Args[1:]))
	os.Exit(1)
}

// become takes what is named from this process and replaces it with the program of the arguments.
func become(name string, args []string) error {
	// Namespaces and capabilities are the thread's, and those of the one that execs stay.
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return err
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	for _, l := range lacks() {
		if l.name != name {
			continue
		}
		if err := l.take(); err != nil {
			return fmt.Errorf("take %s: %w", name, err)
		}
	}
	return unix.Exec(args[0], args, append(os.Environ(), lackEnv+"="))
}

func hide(dir string) func() error {
	return func() error { return unix.Mount("none", dir, "tmpfs", 0, "") }
}

// dropCapabilities drops those that allow probes, CAP_SYS_ADMIN among them, for good.
func dropCapabilities() error {
	for _, c := range []uintptr{unix.CAP_BPF, unix.CAP_PERFMON, unix.CAP_SYS_ADMIN} {
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil {
			return err
		}
	}
	return nil
}

// unmountCgroups leaves no cgroup file system, as in a container that was given none.
func unmountCgroups() error {
	layout, err := cgroupfs.Detect()
	if err != nil {
		return err
	}
	for i := len(layout.Mounts) - 1; i >= 0; i-- {
		if err := unix.Unmount(layout.Mounts[i].Mountpoint, unix.MNT_DETACH); err != nil {
			return err
		}
	}
	return nil
}

// ownNamespace enters a cgroup namespace of its own, which begins at the cgroup in which this
// process was started, as a container's does.
func ownNamespace() error { return unix.Unshare(unix.CLONE_NEWCGROUP) }

// ownCgroup makes a cgroup for a process to be started in, so that a namespace that
// begins there shows less than the host has.
func ownCgroup(t *testing.T) (dir string) {
	t.Helper()
	layout, err := cgroupfs.Detect()
	if err != nil {
		t.Fatal(err)
	}
	if layout.V2 == nil {
		t.Skip("no cgroup v2 is mounted")
	}
	dir, err = os.MkdirTemp(layout.V2.Mountpoint, "lack-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		waitFor(t, "the cgroup of the daemon to empty", func() error { return syscall.Rmdir(dir) })
	})
	return dir
}

// TestWhatIsLacking runs the daemon where something is lacking that a source needs: it says so, the
// metrics show the source down, and events are told all the same.
func TestWhatIsLacking(t *testing.T) {
	program := daemonBinary(t)
	rt := runtimetest.Start(t, testruntime.Options{})
	for _, l := range lacks() {
		t.Run(l.name, func(t *testing.T) {
			d := startDaemon(t, rt, program, l.name)
			d.wantSources(t, l.down)
			d.wantEvents(t, rt)
			t.Logf("matrix: host without %s: %s", l.name, d.summary(l.down))
		})
	}
}

// TestLockdown is for kernels that are locked down, and passes on others for what they are.
func TestLockdown(t *testing.T) {
	state, err := os.ReadFile("/sys/kernel/security/lockdown")
	if err != nil {
		t.Skipf("this kernel has no lockdown, or shows none: %v", err)
	}
	_, mode, _ := strings.Cut(string(state), "[")
	mode, _, _ = strings.Cut(mode, "]")
	down := map[string]string{}
	if mode == "confidentiality" {
		down["ebpf"] = "the kernel is locked down for confidentiality"
	}
	program := daemonBinary(t)
	rt := runtimetest.Start(t, testruntime.Options{})
	d := startDaemon(t, rt, program, "")
	d.wantSources(t, down)
	d.wantEvents(t, rt)
	if mode != "none" {
		t.Logf("matrix: host with lockdown=%s: %s", mode, d.summary(down))
	}
}
