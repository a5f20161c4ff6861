package cgroupfs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/trigger"
)

var (
	idA = strings.Repeat("a", 64)
	idB = strings.Repeat("b", 64)
	idC = strings.Repeat("c", 64)
)

const uid = "2a830d0d-b0f0-4ff0-81b5-0ee4e299cf80"

func makeTree(t *testing.T, paths ...string) string {
	t.Helper()
	root := t.TempDir()
	for _, p := range paths {
		if err := os.MkdirAll(filepath.Join(root, p), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestWalk(t *testing.T) {
	root := makeTree(t,
		"system.slice/sshd.service",
		"kubepods/burstable/pod"+uid+"/"+idA+"/docker/"+idB,
		"docker/"+idB+"/kubepods/pod"+uid+"/"+idC,
	)
	var got []string
	err := Walk(root, "", func(e Entry) error {
		info, err := os.Stat(e.Dir)
		if err != nil {
			t.Fatal(err)
		}
		if e.ID != ID(info) || e.ID == 0 {
			t.Errorf("%s: ID %d, want %d", e.Dir, e.ID, ID(info))
		}
		got = append(got, e.Ref.Class.String()+" "+e.Ref.PodUID()+" "+e.Ref.ContainerID)
		return nil
	})
	want := []string{
		"other-container  " + idB,
		"pod " + uid + " ",
		"pod-container " + uid + " " + idC,
		"pod " + uid + " ",
		"pod-container " + uid + " " + idA,
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v\n got %q\nwant %q", err, got, want)
	}
}

func TestWalkPrefix(t *testing.T) {
	root := makeTree(t, idA)
	var class trigger.CgroupClass
	if err := Walk(root, "k8s.io", func(e Entry) error { class = e.Ref.Class; return nil }); err != nil || class != trigger.CgroupCRIContainer {
		t.Errorf("%v, %v", class, err)
	}
}

func TestWalkErrors(t *testing.T) {
	root := makeTree(t, "kubepods/pod"+uid)
	if err := Walk(filepath.Join(root, "missing"), "", nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing root: %v", err)
	}
	// The visitor's error comes through even if it looks like a cgroup that went.
	if err := Walk(root, "", func(Entry) error { return fs.ErrNotExist }); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("visitor's error: %v", err)
	}
	vanish := func(e Entry) error { return os.RemoveAll(e.Dir) }
	if err := Walk(root, "", vanish); err != nil {
		t.Errorf("cgroup that goes: %v", err)
	}
}

func TestFiles(t *testing.T) {
	dir := makeTree(t, "child/grandchild")
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}

	if _, err := Procs(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Procs without the file: %v", err)
	}
	write("cgroup.procs", "12\n0\n7\n")
	if pids, err := Procs(dir); err != nil || !slices.Equal(pids, []int{12, 7}) {
		t.Errorf("Procs: %v, %v", pids, err)
	}
	write("cgroup.procs", "x\n")
	if _, err := Procs(dir); err == nil {
		t.Error("Procs takes anything")
	}

	for text, want := range map[string]string{
		"populated 1\nfrozen 0\n": "yes", "frozen 0\npopulated 0\n": "no", "populated 1": "yes",
		"": "error", "populated": "error", "populated 10\n": "error", "frozen 1\n": "error",
	} {
		write(EventsFile, text)
		populated, err := Populated(dir)
		got := map[bool]string{true: "yes", false: "no"}[populated]
		if err != nil {
			got = "error"
			if errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%q: %v", text, err)
			}
		}
		if got != want {
			t.Errorf("Populated of %q: %s, want %s", text, got, want)
		}
	}
}

// Version 1 does not tell whether a cgroup is populated, its members do.
func TestHasProcs(t *testing.T) {
	dir := makeTree(t, "child/grandchild")
	check := func(want bool) {
		t.Helper()
		if got, err := HasProcs(dir); err != nil || got != want {
			t.Errorf("HasProcs: %v, %v", got, err)
		}
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := HasProcs(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("HasProcs without files: %v", err)
	}
	for _, d := range []string{"", "child", "child/grandchild"} {
		write(filepath.Join(d, "cgroup.procs"), "")
	}
	check(false)
	write("child/grandchild/cgroup.procs", "0\n") // of another PID namespace
	check(true)
	write(EventsFile, "populated 0\n") // v2 knows best
	check(false)
}

func TestGone(t *testing.T) {
	err := gone(&fs.PathError{Op: "read", Path: "cgroup.events", Err: syscall.ENODEV})
	if !errors.Is(err, fs.ErrNotExist) || !errors.Is(err, syscall.ENODEV) {
		t.Errorf("a removed cgroup's file: %v", err)
	}
	if err := gone(fs.ErrPermission); !errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("another error: %v", err)
	}
}
