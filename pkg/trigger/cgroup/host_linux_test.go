package cgroup

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/internal/testutil"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/trigger"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/trigger/cgroupfs"
)

// hierarchies returns the host's hierarchies: v2, and the preferred of v1. Either
// may be missing.
func hierarchies(t testing.TB) (v2, v1 *cgroupfs.Hierarchy) {
	t.Helper()
	layout, err := cgroupfs.Detect()
	if err != nil {
		t.Fatal(err)
	}
	if len(layout.V1) > 0 {
		v1 = &layout.V1[0]
	}
	return layout.V2, v1
}

// scratch makes a cgroup for the test in the hierarchy.
func scratch(t testing.TB, h *cgroupfs.Hierarchy, version int) string {
	t.Helper()
	if h == nil {
		err := fmt.Errorf("no cgroup v%d hierarchy is mounted", version)
		if v2, v1 := hierarchies(t); v2 != nil || v1 != nil {
			t.Skip(err) // a host with the other version alone lacks nothing
		}
		testutil.Need(t, "cgroup", err)
	}
	dir, err := os.MkdirTemp(h.Mountpoint, "hybrid-pleg-test-")
	testutil.Need(t, "cgroup", err)
	t.Cleanup(func() { removeCgroups(t, dir) })
	return dir
}

// removeCgroups removes cgroups from the leaves up: the files in them can't be.
func removeCgroups(t testing.TB, dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	for _, e := range entries {
		if e.IsDir() {
			removeCgroups(t, filepath.Join(dir, e.Name()))
		}
	}
	rmdir(t, dir)
}

// rmdir removes one cgroup. A process that was killed may keep it busy for a moment.
func rmdir(t testing.TB, dir string) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		err := os.Remove(dir)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return
		}
		if !errors.Is(err, syscall.EBUSY) || time.Now().After(deadline) {
			t.Errorf("left behind: %v", err)
			return
		}
		runtime.Gosched()
	}
}

func mkdir(t testing.TB, elem ...string) string {
	t.Helper()
	dir := filepath.Join(elem...)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// runIn starts a process in the cgroup, which lives until the returned function
// ends it.
func runIn(t testing.TB, dir string) (end func()) {
	t.Helper()
	f, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	cmd := exec.Command("cat")
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(f.Fd())}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	end = func() {
		if in != nil {
			in.Close()
			in = nil
			if err := cmd.Wait(); err != nil {
				t.Error(err)
			}
		}
	}
	t.Cleanup(end)
	return end
}

// of keeps the signals of one container or pod.
func of(signals []trigger.Signal, id string) []string {
	var lines []string
	for _, s := range signals {
		if s.ContainerID == id || s.ContainerID == "" && s.PodUID == id {
			lines = append(lines, line(s))
		}
	}
	return lines
}

func expect(t testing.TB, r *recorder, id string, want ...string) {
	t.Helper()
	signals := r.waitFor(t, fmt.Sprintf("%d signals of %s", len(want), id), func(s []trigger.Signal) bool { return len(of(s, id)) >= len(want) })
	got := of(signals, id)
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Fatalf("signals of %s:\n got %q\nwant %q", id, got, want)
	}
}

// watchesOf counts the watches of this process's inotify instances.
func watchesOf(t testing.TB) (n int) {
	t.Helper()
	files, err := filepath.Glob("/proc/self/fdinfo/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		data, _ := os.ReadFile(file) // the directory's own is gone by now
		n += bytes.Count(data, []byte("inotify wd:"))
	}
	return n
}

func descriptors(t testing.TB) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}
