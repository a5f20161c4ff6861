package cgroupfs

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/trigger"
)

// Lines of /proc/self/mountinfo as different hosts have them.
const (
	infoUnified = `24 29 0:22 / /proc rw,nosuid - proc proc rw
35 28 0:30 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot
`
	// Cilium's own mount of the same hierarchy.
	infoCilium = infoUnified + `400 28 0:30 / /run/cilium/cgroupv2 rw,relatime shared:70 - cgroup2 none rw
`
	infoHybrid = `30 22 0:27 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
31 30 0:28 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:10 - cgroup cgroup rw,cpu,cpuacct
33 30 0:30 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids
34 30 0:31 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
39 30 0:36 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,xattr,release_agent=/lib/systemd/agent,name=systemd
40 30 0:37 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw,nsdelegate
`
	infoLegacy = `30 22 0:27 / /sys/fs/cgroup ro shared:9 - tmpfs tmpfs ro,mode=755
39 30 0:36 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,name=systemd
31 30 0:28 / /sys/fs/cgroup/net_cls rw,relatime - cgroup cgroup rw,net_cls
33 30 0:30 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids
400 28 0:45 / /run/cilium/cgroupv2 rw,relatime - cgroup2 none rw
`
	infoSystemdOnly = `39 30 0:36 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,name=systemd
`
	// In a container with a cgroup namespace of its own.
	infoPrivate = `500 499 0:30 / /sys/fs/cgroup ro,nosuid - cgroup2 cgroup rw
`
	infoPrivateHost = infoPrivate + `501 499 0:30 /../../../.. /host/sys/fs/cgroup ro - cgroup2 cgroup rw
`
	// In docker on v1, without a namespace.
	infoDocker = `500 499 0:60 / /sys/fs/cgroup rw - tmpfs tmpfs rw
501 500 0:31 /docker/5aaf9eb7648eeb1459d86eaa0ace8bcfa93089642e5c3113a14250dae3238aaf /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory
502 500 0:36 /docker/5aaf9eb7648eeb1459d86eaa0ace8bcfa93089642e5c3113a14250dae3238aaf /sys/fs/cgroup/systemd ro - cgroup cgroup rw,name=systemd
`
	infoDockerHost = infoDocker + `510 499 0:36 / /host/sys/fs/cgroup/systemd ro - cgroup cgroup rw,name=systemd
511 499 0:31 / /host/sys/fs/cgroup/memory ro - cgroup cgroup rw,memory
512 499 0:37 / /host/sys/fs/cgroup/unified ro - cgroup2 cgroup2 rw
`
	// One mount over another: only the last is to be seen.
	infoCovered = infoUnified + `36 35 0:60 / /sys/fs/cgroup rw - tmpfs tmpfs rw
37 36 0:31 / /sys/fs/cgroup/with\040space rw - cgroup cgroup rw,memory
`
)

func TestLayouts(t *testing.T) {
	tests := []struct {
		name       string
		mode       Mode
		info       string
		own, outer bool
		want       string // the hierarchies to watch
		err        string
	}{
		{"unified", Unified, infoUnified, false, false, "/sys/fs/cgroup", ""},
		{"unified with Cilium", Unified, infoCilium, false, false, "/sys/fs/cgroup", ""},
		{"hybrid", Hybrid, infoHybrid, false, false, "/sys/fs/cgroup/unified /sys/fs/cgroup/memory", ""},
		{"legacy with Cilium", Legacy, infoLegacy, false, false, "/sys/fs/cgroup/pids", ""},
		{"systemd's alone", Legacy, infoSystemdOnly, false, false, "/sys/fs/cgroup/systemd", ""},
		{"covered", Legacy, infoCovered, false, false, "/sys/fs/cgroup/with space", ""},
		{"host's mount in a container", Unified, infoPrivateHost, true, false, "/host/sys/fs/cgroup", ""},
		{"host's mount, host's processes", Unified, infoPrivateHost, true, true, "/host/sys/fs/cgroup", ""},
		{"host's v1 in docker", Legacy, infoDockerHost, false, false, "/host/sys/fs/cgroup/unified /host/sys/fs/cgroup/memory", ""},
		{"own namespace", Unified, infoPrivate, true, false, "", "shows only the cgroups below this process's own"},
		{"own namespace, host's processes", Unified, infoPrivate, true, true, "", "/host/sys/fs/cgroup"},
		{"docker", Legacy, infoDocker, false, false, "", "/host/sys/fs/cgroup"},
		{"nothing", Unavailable, "", false, false, "", "mount the host's /sys/fs/cgroup"},
		{"junk", Unavailable, "- - -\n1 2 3\n\n1 2 3 4 /x - cgroup2\n", false, false, "", "mount the host's /sys/fs/cgroup"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			mounts, err := parseMountinfo(strings.NewReader(tt.info))
			if err != nil {
				t.Fatal(err)
			}
			if tt.err != "" {
				// What the mounts show decides: not this host's cgroups, then.
				mounts = moveMounts(mounts, t.TempDir())
			}
			found, err := newLayout(tt.mode, mounts, tt.own, tt.outer).Hierarchies()
			var got []string
			for _, h := range found {
				got = append(got, h.Mountpoint)
			}
			if strings.Join(got, " ") != tt.want {
				t.Errorf("found %q, want %q", got, tt.want)
			}
			if (err != nil) != (tt.err != "") || err != nil && (!errors.Is(err, trigger.ErrUnsupported) || !strings.Contains(err.Error(), tt.err)) {
				t.Errorf("error: %v", err)
			}
		})
	}
}

// moveMounts puts what shows no more than the namespace into an empty directory.
func moveMounts(mounts []Hierarchy, dir string) []Hierarchy {
	for i := range mounts {
		if !mounts[i].above() {
			mounts[i].Mountpoint = filepath.Join(dir, mounts[i].Mountpoint)
		}
	}
	return mounts
}

// The node of kind has a cgroup namespace of its own, and all its pods in it.
func TestNodeInContainer(t *testing.T) {
	for _, below := range []string{"kubelet.slice/kubelet-kubepods.slice", "kubepods", "k8s.io/" + strings.Repeat("a", 64)} {
		dir := t.TempDir()
		if err := os.MkdirAll(filepath.Join(dir, below), 0o755); err != nil {
			t.Fatal(err)
		}
		l := newLayout(Unified, []Hierarchy{{Version: 2, Mountpoint: dir, Root: "/"}}, true, false)
		if found, err := l.Hierarchies(); err != nil || len(found) != 1 || found[0].Mountpoint != dir {
			t.Errorf("%s: %v, %v", below, found, err)
		}
		l.InitOutside = true
		if _, err := l.Hierarchies(); !errors.Is(err, trigger.ErrUnsupported) {
			t.Errorf("%s, with the host's process 1 outside: %v", below, err)
		}
	}
}

func TestControllers(t *testing.T) {
	for options, want := range map[string]string{
		"rw,cpu,cpuacct": "cpu cpuacct",
		"rw,xattr,release_agent=/lib/systemd/systemd-cgroups-agent,name=systemd": "name=systemd",
		"rw,cpuset,noprefix,clone_children":                                      "cpuset",
		"ro":                                                                     "",
	} {
		if got := strings.Join(controllersOf(options), " "); got != want {
			t.Errorf("%s: %q, want %q", options, got, want)
		}
	}
}

func TestHierarchyPaths(t *testing.T) {
	h := Hierarchy{Mountpoint: "/sys/fs/cgroup/unified"}
	for dir, want := range map[string]struct {
		prefix string
		in     bool
	}{
		"/sys/fs/cgroup/unified":            {"", true},
		"/sys/fs/cgroup/unified/kubepods":   {"kubepods", true},
		"/sys/fs/cgroup/unified/a/b":        {"a/b", true},
		"/sys/fs/cgroup/unified-other/a":    {"", false},
		"/sys/fs/cgroup":                    {"", false},
		"/sys/fs/cgroup/memory/../unified2": {"", false},
	} {
		if got := h.Prefix(dir); got != want.prefix {
			t.Errorf("Prefix(%s) = %q", dir, got)
		}
		if got := h.Contains(dir); got != want.in {
			t.Errorf("Contains(%s) = %v", dir, got)
		}
	}
	l := Layout{Mounts: []Hierarchy{{Mountpoint: "/sys/fs/cgroup", Version: 2}, {Mountpoint: "/sys/fs/cgroup/x", Version: 1}}}
	if h, ok := l.At("/sys/fs/cgroup/x/y"); !ok || h.Version != 1 {
		t.Errorf("At: %+v, %v", h, ok)
	}
	if h, ok := l.At("/tmp"); ok {
		t.Errorf("At: %+v", h)
	}
}
