package bpftest

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hybrid-pleg/hybrid-pleg/internal/testutil"
)

// Hierarchy is a version of cgroups.
type Hierarchy int

// The versions.
const (
	V1 Hierarchy = 1
	V2 Hierarchy = 2
)

// Controller is the v1 controller in whose hierarchy the tests make their cgroups: the one that
// the ebpf source looks at where it has the choice.
const Controller = "memory"

// Tree is a part of a hierarchy that belongs to one test.
type Tree struct {
	hierarchy Hierarchy
	root      string // mount point
	base      string
	processes []*Process
}

// Container is a cgroup named like a container's.
type Container struct {
	ID, PodUID string
	Dir        string
	// Path is that of the cgroup in its hierarchy, CgroupID its number.
	Path     string
	CgroupID uint64

	tree *Tree
}

// NewTree makes a place for cgroups. The test is skipped on a host with the other version
// alone. It is also skipped where cgroups can't be made at all, or fails where they are
// required (see [testutil.Need]).
func NewTree(t testing.TB, h Hierarchy) *Tree {
	t.Helper()
	if os.Geteuid() != 0 {
		testutil.Need(t, "cgroup", errors.New("only root may make cgroups"))
	}
	root, err := mountpoint(h)
	if _, other := mountpoint(V1 + V2 - h); err != nil && other == nil {
		t.Skip(err) // a host with the other version alone lacks nothing
	}
	testutil.Need(t, "cgroup", err)
	tree := &Tree{hierarchy: h, root: root}
	tree.base, err = os.MkdirTemp(root, "bpftest-")
	testutil.Need(t, "cgroup", err)
	t.Cleanup(func() { tree.remove(t) })
	return tree
}

// Base is the directory of the tree.
func (tree *Tree) Base() string { return tree.base }

// Root is the mount point of the hierarchy.
func (tree *Tree) Root() string { return tree.root }

// Hierarchy is the version of cgroups that the tree is in.
func (tree *Tree) Hierarchy() Hierarchy { return tree.hierarchy }

// Has reports whether a hierarchy is there.
func Has(h Hierarchy) bool {
	_, err := mountpoint(h)
	return err == nil
}

// mountpoint finds a mounted hierarchy that shows all of it.
func mountpoint(h Hierarchy) (string, error) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(mounts)) {
		// ID parent device root mountpoint options … - type source superoptions
		front, back, _ := strings.Cut(line, " - ")
		f, b := strings.Fields(front), strings.Fields(back)
		if len(f) < 5 || len(b) < 3 || f[3] != "/" {
			continue
		}
		if h == V2 && b[0] == "cgroup2" {
			return f[4], nil
		}
		if h == V1 && b[0] == "cgroup" && strings.Contains(","+b[2]+",", ","+Controller+",") {
			return f[4], nil
		}
	}
	return "", fmt.Errorf("no cgroup v%d hierarchy is mounted", h)
}

// V1ID is the number of the v1 hierarchy with [Controller]. The test is skipped if there is
// none.
func V1ID(t testing.TB) uint32 {
	t.Helper()
	table, err := os.ReadFile("/proc/cgroups")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(table)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == Controller && f[1] != "0" {
			id, err := strconv.ParseUint(f[1], 10, 32)
			if err != nil {
				t.Fatal(err)
			}
			return uint32(id)
		}
	}
	t.Skipf("the controller %q is in no v1 hierarchy", Controller)
	return 0
}

// Container makes a container of a new pod, named as by the cgroupfs driver.
func (tree *Tree) Container(t testing.TB) *Container {
	t.Helper()
	id, uid := hexDigits(64), hexDigits(32)
	uid = strings.Join([]string{uid[:8], uid[8:12], uid[12:16], uid[16:20], uid[20:]}, "-")
	c := tree.At(t, "kubepods/burstable/pod"+uid+"/"+id)
	c.ID, c.PodUID = id, uid
	return c
}

// Foreign makes a container as docker names it, in no pod.
func (tree *Tree) Foreign(t testing.TB) *Container {
	t.Helper()
	id := hexDigits(64)
	c := tree.At(t, "docker/"+id)
	c.ID = id
	return c
}

// At makes a cgroup at a path below the tree.
func (tree *Tree) At(t testing.TB, path string) *Container {
	t.Helper()
	c := &Container{Dir: filepath.Join(tree.base, path), tree: tree}
	c.Path = strings.TrimPrefix(c.Dir, tree.root)
	if err := os.MkdirAll(c.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	var st unix.Stat_t
	if err := unix.Stat(c.Dir, &st); err != nil {
		t.Fatal(err)
	}
	c.CgroupID = st.Ino
	return c
}

// Below makes a cgroup inside the container's, as a workload may.
func (c *Container) Below(t testing.TB, path string) *Container {
	t.Helper()
	return c.tree.At(t, filepath.Join(strings.TrimPrefix(c.Dir, c.tree.base), path))
}

// ID returns a new container ID.
func ID() string { return hexDigits(64) }

func hexDigits(n int) string {
	b := make([]byte, n/2)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

// remove ends all that lives in the tree and takes it away.
func (tree *Tree) remove(t testing.TB) {
	for _, p := range tree.processes {
		p.kill()
	}
	err := Eventually(func() error {
		var dirs []string
		err := filepath.WalkDir(tree.base, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				dirs = append(dirs, path)
			}
			return nil
		})
		for i := len(dirs) - 1; i >= 0; i-- {
			killAll(dirs[i])
			if e := os.Remove(dirs[i]); e != nil && !errors.Is(e, fs.ErrNotExist) {
				err = e
			}
		}
		return err
	})
	if err != nil {
		t.Errorf("cgroups are left behind: %v", err)
	}
}

// killAll ends what a test's processes left in their cgroup, and nothing else.
func killAll(dir string) {
	procs, _ := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	for _, pid := range strings.Fields(string(procs)) {
		if n, err := strconv.Atoi(pid); err == nil && n > 1 {
			_ = syscall.Kill(n, syscall.SIGKILL)
		}
	}
}

// Eventually tries until there is no error any more, for ten seconds at most.
func Eventually(try func() error) error {
	for deadline := time.Now().Add(10 * time.Second); ; {
		err := try()
		if err == nil || time.Now().After(deadline) {
			return err
		}
		<-time.After(time.Millisecond)
	}
}
