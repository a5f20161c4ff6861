package cgroupfs

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/hybrid-pleg/hybrid-pleg/internal/testutil"
)

// fakeProc is a /proc with what detect reads.
func fakeProc(t *testing.T, mountinfo, namespace, first string) string {
	t.Helper()
	dir := t.TempDir()
	for _, d := range []string{"self/ns", "1"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{"self/mountinfo": mountinfo, "1/cgroup": first} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if namespace != "" {
		if err := os.Symlink(namespace, filepath.Join(dir, "self/ns/cgroup")); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestDetectNamespace(t *testing.T) {
	tests := []struct {
		name, namespace, first string
		own, outside           bool
	}{
		{"host", initNamespace, "0::/init.scope\n", false, false},
		{"no namespaces", "", "0::/init.scope\n", false, false},
		{"container", "cgroup:[4026532837]", "0::/\n", true, false},
		{"container with the host's processes", "cgroup:[4026532837]", "0::/../../../init.scope\n", true, true},
		{"v1", "cgroup:[4026532837]", "2:memory:/../../init.scope\n1:name=systemd:/../../init.scope\n", true, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l, err := detect(fakeProc(t, infoUnified, tt.namespace, tt.first), Unified)
			if err != nil {
				t.Fatal(err)
			}
			if l.OwnNamespace != tt.own || l.InitOutside != tt.outside || l.V2 == nil {
				t.Errorf("layout: %+v", l)
			}
		})
	}
	if _, err := detect(t.TempDir(), Unified); err == nil {
		t.Error("no error without /proc")
	}
}

// The mode is found by the file system at /sys/fs/cgroup: where none is mounted, anything passes
// for v1.
func TestDetectNothing(t *testing.T) {
	l, err := detect(fakeProc(t, "22 1 0:21 / /sys rw - sysfs sysfs rw\n", initNamespace, ""), Legacy)
	if err != nil || l.Mode != Unavailable {
		t.Errorf("mode %s, %v", l.Mode, err)
	}
}

// What is found on this host must be what the kernel shows there.
func TestDetectHost(t *testing.T) {
	l, err := Detect()
	if err != nil {
		t.Fatal(err)
	}
	found, err := l.Hierarchies()
	testutil.Need(t, "cgroup", err)
	t.Logf("mode %s: %+v", l.Mode, found)
	for _, h := range found {
		if _, err := Procs(h.Mountpoint); err != nil {
			t.Errorf("%s: %v", h.Mountpoint, err)
		}
		_, err := os.Stat(filepath.Join(h.Mountpoint, "cgroup.controllers"))
		if isV2 := err == nil; isV2 != (h.Version == 2) {
			t.Errorf("%s is said to be v%d", h.Mountpoint, h.Version)
		}
	}
	if (l.Mode == Unified || l.Mode == Hybrid) && l.V2 == nil {
		t.Errorf("mode %s without a v2 hierarchy", l.Mode)
	}
}
