package cgroupfs

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const (
	podUID  = "6f1c1c0a-9b1e-4f5e-8a4b-0123456789ab"
	podPath = "/kubepods/burstable/pod" + podUID
)

var (
	thisID  = strings.Repeat("0123456789abcdef", 4)
	otherID = strings.Repeat("f", 64)
)

// locateHere locates process 7, of which /proc says memberships, with a layout of
// which every directory named exists. Mount points are below root.
func locateHere(t *testing.T, memberships string, mounts []Hierarchy, dirs ...string) (at Located, ok bool, root string) {
	t.Helper()
	root = t.TempDir()
	for _, d := range dirs {
		if err := os.MkdirAll(filepath.Join(root, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	proc := filepath.Join(root, "proc")
	if err := os.MkdirAll(filepath.Join(proc, "7"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(proc, "7/cgroup"), []byte(memberships), 0o644); err != nil {
		t.Fatal(err)
	}
	var placed []Hierarchy
	for _, m := range mounts {
		m.Mountpoint = filepath.Join(root, m.Mountpoint)
		placed = append(placed, m)
	}
	l := NewLocator()
	l.proc = proc
	l.layout = func() (Layout, error) { return newLayout(Hybrid, placed, false, false), nil }
	at, ok = l.Locate(7, podUID, thisID)
	again, okAgain := l.Locate(7, podUID, thisID)
	if again != at || okAgain != ok {
		t.Errorf("located as %+v, %t, and then as %+v, %t", at, ok, again, okAgain)
	}
	return at, ok, root
}

func TestLocate(t *testing.T) {
	v2 := []Hierarchy{{Version: 2, Mountpoint: "v2", Root: "/"}}
	hybrid := append([]Hierarchy{
		{Version: 1, Mountpoint: "cpu", Root: "/", Controllers: []string{"cpu"}},
		{Version: 1, Mountpoint: "memory", Root: "/", Controllers: []string{"memory"}},
	}, v2...)
	// This process is in a container with a namespace of its own, which is four levels
	// deep; the host's hierarchy is mounted into it.
	inside := []Hierarchy{{Version: 2, Mountpoint: "v2", Root: "/"}, {Version: 2, Mountpoint: "host", Root: "/../../../.."}}
	self := "host/kubepods.slice/kubepods-burstable.slice/pod.slice/self.scope"
	systemd := "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + strings.ReplaceAll(podUID, "-", "_") + ".slice"
	dashed := `/kubepods.slice/pod\x2d1.slice/cri-containerd-`
	this := podPath + "/" + thisID

	tests := []struct {
		name    string
		members string
		mounts  []Hierarchy
		dirs    []string
		path    string // "-": not located
		dir     string // of the ID
	}{
		{"unified", "0::" + this + "\n", v2, []string{"v2" + this}, this, "v2" + this},
		{"hybrid", "2:cpu:" + this + "\n1:memory:" + this + "\n0::" + this, hybrid, []string{"v2" + this, "memory" + this}, this, "v2" + this},
		{"hybrid, in v1 alone", "2:cpu:/c/" + thisID + "\n1:memory:" + this + "\n0::/\n", hybrid, []string{"memory" + this, "cpu/c/" + thisID}, this, ""},
		{"v1 without memory", "3:name=systemd:/s/" + thisID + "\n2:cpu,cpuacct:/c/" + thisID + "\n0::/x\n", hybrid, nil, "/c/" + thisID, ""},
		{"systemd", "0::" + systemd + "/cri-containerd-" + thisID + ".scope\n", v2, []string{"v2" + systemd + "/cri-containerd-" + thisID + ".scope"}, systemd + "/cri-containerd-" + thisID + ".scope", "v2" + systemd + "/cri-containerd-" + thisID + ".scope"},
		{"below the container", "0::" + this + "/init.scope\n", v2, []string{"v2" + this}, this, "v2" + this},
		{"colons", "0::/system.slice/slice:cri-containerd:" + thisID + "\n", v2, nil, "/system.slice/slice:cri-containerd:" + thisID, ""},
		{"not mounted", "0::" + this + "\n", nil, nil, this, ""},
		{"gone meanwhile", "0::" + this + "\n", v2, nil, this, ""},
		{"in the pod, outside of a container", "0::" + podPath + "/kata_overhead\n", v2, nil, "", ""},

		{"another container", "0::" + podPath + "/" + otherID + "\n", v2, nil, "-", ""},
		{"another pod", "0::/kubepods/pod" + strings.Replace(podUID, "6", "7", 1) + "/x\n", v2, nil, "-", ""},
		{"no container", "1:memory:/\n0::/user.slice\n", hybrid, nil, "-", ""},
		{"removed", "0::" + this + " (deleted)\n", v2, nil, "-", ""},
		{"a longer ID", "0::/x/a" + thisID + "\n", v2, nil, "-", ""},
		{"a helper's", "0::/x/" + thisID + ".mount\n", v2, nil, "-", ""},
		{"nonsense", "\n:\n0:\nx", v2, nil, "-", ""},

		{"beside this container", "0::/../../other.slice/" + thisID + "\n", inside,
			[]string{self, "host/kubepods.slice/kubepods-burstable.slice/other.slice/" + thisID},
			"/kubepods.slice/kubepods-burstable.slice/other.slice/" + thisID, "host/kubepods.slice/kubepods-burstable.slice/other.slice/" + thisID},
		{"from the top", "0::/../../../../docker/" + thisID + "\n", inside, []string{self, "host/docker/" + thisID}, "/docker/" + thisID, "host/docker/" + thisID},
		{"escapes", "0::/../../.." + dashed + thisID + ".scope\n", inside,
			[]string{self, `host/a/kubepods.slice/pod\x2d1.slice/cri-containerd-` + thisID + ".scope"},
			"/a" + dashed + thisID + ".scope", "host/a" + dashed + thisID + ".scope"},
		{"in this container", "0::/kubepods/" + thisID + "\n", inside, []string{self + "/kubepods/" + thisID},
			"/kubepods.slice/kubepods-burstable.slice/pod.slice/self.scope/kubepods/" + thisID, self + "/kubepods/" + thisID},
		{"in two places", "0::/../../../x/" + thisID + "\n", inside, []string{"host/a/x/" + thisID, "host/b/x/" + thisID}, "", ""},
		{"outside of the mount", "0::/../../../../../x/" + thisID + "\n", inside, []string{self}, "", ""},
		{"outside, nothing mounted", "0::/../x/" + thisID + "\n", v2, []string{"v2/x/" + thisID}, "", ""},
		{"a part is mounted", "0::" + this + "\n", []Hierarchy{{Version: 2, Mountpoint: "v2", Root: "/kubepods"}}, nil, this, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			at, ok, root := locateHere(t, tt.members, tt.mounts, tt.dirs...)
			if ok != (tt.path != "-") {
				t.Fatalf("located: %t, at %+v", ok, at)
			}
			want := Located{Path: strings.TrimPrefix(tt.path, "-")}
			if tt.dir != "" {
				info, err := os.Stat(filepath.Join(root, tt.dir))
				if err != nil {
					t.Fatal(err)
				}
				want.ID = ID(info)
			}
			if at != want {
				t.Errorf("located at %+v, want %+v", at, want)
			}
		})
	}
}

func TestLocateWithout(t *testing.T) {
	at, ok, _ := locateHere(t, "0::/x\n", nil)
	if ok || at != (Located{}) {
		t.Errorf("located: %+v", at)
	}
	l := NewLocator()
	l.proc = t.TempDir()
	if at, ok := l.Locate(7, podUID, thisID); ok || at != (Located{}) {
		t.Errorf("a process that is not there: %+v", at)
	}
	// Whoever names no container gets none, whatever /proc says.
	if at, ok := NewLocator().Locate(os.Getpid(), "", ""); ok || at != (Located{}) {
		t.Errorf("no container: %+v", at)
	}
	// Without a layout the path is what /proc says.
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "7"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, strconv.Itoa(7), "cgroup"), []byte("0::/x/"+thisID+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	l.proc, l.layout = dir, func() (Layout, error) { return Layout{}, errors.New("no /proc") }
	if at, ok := l.Locate(7, podUID, thisID); !ok || at != (Located{Path: "/x/" + thisID}) {
		t.Errorf("without a layout: %t, %+v", ok, at)
	}
}
