package cgrouptree

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fsnotify/fsnotify"
	"go.uber.org/goleak"

	"github.com/hybrid-pleg/hybrid-pleg/internal/embedded"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

const uid = "26ab26cd-6409-443f-a13c-fd6c231207c8"

// id64 is an ID of full length.
func id64(digit string) string { return strings.Repeat(digit, 64) }

func newTree(t *testing.T) *Tree {
	t.Helper()
	tree, err := New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tree.Close() })
	return tree
}

// do fails the test on the first error.
func do(t *testing.T, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

func read(t *testing.T, path ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// paths lists the directories of the hierarchy, and fails on a file that should
// not be there or an ancestor that is not readable.
func paths(t *testing.T, tree *Tree) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(tree.Root(), func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			out = append(out, strings.TrimPrefix(p, tree.Root()))
		} else if !strings.HasPrefix(d.Name(), "cgroup.") {
			t.Errorf("what is %s?", p)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

var atFirst = []string{"", "/kubepods", "/kubepods/besteffort", "/kubepods/burstable"}

func TestPath(t *testing.T) {
	for _, c := range []struct{ parent, want string }{
		{"/kubepods/burstable/pod" + uid, "/kubepods/burstable/pod" + uid + "/" + id64("a")},
		{"/kubepods/pod" + uid, "/kubepods/pod" + uid + "/" + id64("a")},
		{"/k8s.io", "/k8s.io/" + id64("a")},
		{"", "/" + id64("a")},
		{"../../../etc", "/etc/" + id64("a")},
		{
			"kubepods-besteffort-podeb052b63_ea96_4728_ab4a_64ab3babccd7.slice",
			"/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-podeb052b63_ea96_4728_ab4a_64ab3babccd7.slice/cri-containerd-" + id64("a") + ".scope",
		},
		{
			"/kubepods.slice/kubepods-podeb.slice",
			"/kubepods.slice/kubepods-podeb.slice/cri-containerd-" + id64("a") + ".scope",
		},
		{"../x.slice", "/x.slice/cri-containerd-" + id64("a") + ".scope"},
	} {
		if got := Path(embedded.Cgroup{Parent: c.parent, ID: id64("a")}); got != c.want {
			t.Errorf("%q: got %q, want %q", c.parent, got, c.want)
		}
	}
}

// A watcher sees what the kernel would show it: one creation of a directory that
// is complete, one change for each flip, one removal.
func TestWhatAWatcherSees(t *testing.T) {
	tree := newTree(t)
	w, err := fsnotify.NewWatcher()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	expect := func(op fsnotify.Op, name string) {
		t.Helper()
		late := time.NewTimer(time.Minute)
		defer late.Stop()
		for {
			select {
			case ev := <-w.Events:
				if ev.Name == name && ev.Has(op) {
					return
				}
			case err := <-w.Errors:
				t.Fatal(err)
			case <-late.C:
				t.Fatalf("waited in vain for %v of %s", op, name)
			}
		}
	}

	cg := embedded.Cgroup{Parent: "/kubepods/burstable/pod" + uid, ID: id64("b"), Pid: 4711}
	above := filepath.Join(tree.Root(), "kubepods", "burstable")
	pod := filepath.Join(above, "pod"+uid)
	dir := filepath.Join(pod, cg.ID)
	events := filepath.Join(dir, "cgroup.events")
	do(t, w.Add(above), tree.PodAdded(cg.Parent))
	expect(fsnotify.Create, pod)
	do(t, w.Add(pod), tree.Created(cg))
	expect(fsnotify.Create, dir)
	if got := read(t, events) + read(t, dir, "cgroup.procs"); got != "populated 0\nfrozen 0\n" {
		t.Errorf("at first: %q", got)
	}

	do(t, w.Add(events), tree.Populated(cg))
	expect(fsnotify.Write, events)
	if got := read(t, events) + read(t, dir, "cgroup.procs"); got != "populated 1\nfrozen 0\n4711\n" {
		t.Errorf("populated: %q", got)
	}
	do(t, tree.Frozen(cg, true))
	expect(fsnotify.Write, events)
	if got := read(t, events); got != "populated 1\nfrozen 1\n" {
		t.Errorf("frozen: %q", got)
	}
	do(t, tree.Frozen(cg, false))
	expect(fsnotify.Write, events)

	do(t, tree.Emptied(cg))
	expect(fsnotify.Write, events)
	if got := read(t, events) + read(t, dir, "cgroup.procs"); got != "populated 0\nfrozen 0\n" {
		t.Errorf("emptied: %q", got)
	}
	do(t, tree.Removed(cg))
	expect(fsnotify.Remove, dir)
	do(t, tree.PodRemoved(cg.Parent))
	expect(fsnotify.Remove, pod)
	if got := paths(t, tree); !slices.Equal(got, atFirst) {
		t.Errorf("left over: %q", got)
	}
}

func TestAncestorsArePopulatedWhileADescendantIs(t *testing.T) {
	tree := newTree(t)
	parent := "/kubepods/besteffort/pod" + uid
	one, two := embedded.Cgroup{Parent: parent, ID: id64("1"), Pid: 1}, embedded.Cgroup{Parent: parent, ID: id64("2"), Pid: 2}
	wantPopulated := func(want string) {
		t.Helper()
		for _, p := range []string{"kubepods", "kubepods/besteffort", parent} {
			if got := read(t, tree.Root(), p, "cgroup.events"); got != "populated "+want+"\nfrozen 0\n" {
				t.Errorf("%s: %q", p, got)
			}
		}
	}
	do(t, tree.PodAdded(parent), tree.Created(one), tree.Created(two))
	wantPopulated("0")
	do(t, tree.Populated(one), tree.Populated(two))
	wantPopulated("1")
	if got := read(t, tree.Root(), "kubepods/burstable/cgroup.events"); !strings.HasPrefix(got, "populated 0") {
		t.Errorf("another branch: %q", got)
	}
	do(t, tree.Emptied(one), tree.Emptied(one))
	wantPopulated("1")
	// The kernel would not let go a cgroup with processes in it; if one is removed
	// all the same, its ancestors must not stay populated for ever.
	do(t, tree.Removed(two))
	wantPopulated("0")
}

func TestOddParents(t *testing.T) {
	tree := newTree(t)
	var all []embedded.Cgroup
	for _, parent := range []string{
		"", "/", "..", "../../../../x", "/kubepods", "/kubepods/burstable/../../../y", "x.slice", "a-b.slice", "/k8s.io", "/k8s.io/deeper",
	} {
		cg := embedded.Cgroup{Parent: parent, ID: id64("c"), Pid: 1}
		do(t, tree.PodAdded(parent), tree.Created(cg), tree.Populated(cg))
		if got := read(t, tree.Root(), Path(cg), "cgroup.procs"); got != "1\n" {
			t.Errorf("parent %q: %q", parent, got)
		}
		all = append(all, cg)
	}
	for _, cg := range all {
		do(t, tree.Emptied(cg), tree.Removed(cg), tree.PodRemoved(cg.Parent))
	}
	if got := paths(t, tree); !slices.Equal(got, atFirst) {
		t.Errorf("left over: %q", got)
	}
	if err := tree.Created(embedded.Cgroup{Parent: strings.Repeat("x", 300), ID: id64("c")}); err == nil {
		t.Error("a name of 300 bytes was taken")
	}
	if left, err := os.ReadDir(filepath.Join(filepath.Dir(tree.Root()), "staging")); err != nil || len(left) != 0 {
		t.Errorf("left over in the staging directory: %v, %v", left, err)
	}
}

// The tree as the runtime's mirror: the cgroup is ahead of the CRI at each step.
func TestTheTreeIsAheadOfTheCRI(t *testing.T) {
	tree := newTree(t)
	synctest.Test(t, func(t *testing.T) {
		lag := time.Minute
		rt := embedded.New(embedded.Options{Mirror: tree, Seed: 1, Lag: embedded.Lag{Start: embedded.Fixed(lag), Exit: embedded.Fixed(lag)}})
		defer rt.Close()
		config := embedded.PodConfig("n", "p", uid, 0, embedded.Guaranteed)
		pod, err := rt.RunPod(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		id, err := rt.Create(t.Context(), pod, embedded.ContainerConfig(config, "c", 0, "image", "exit", "0", "after", "1h"))
		if err != nil {
			t.Fatal(err)
		}
		dir := filepath.Join(tree.Root(), "kubepods", "pod"+uid, id)
		show := func() (string, runtimeapi.ContainerState) {
			t.Helper()
			synctest.Wait()
			list, err := rt.Client().ListContainers(t.Context(), nil)
			if err != nil || len(list) != 1 {
				t.Fatal(list, err)
			}
			text, err := os.ReadFile(filepath.Join(dir, "cgroup.events"))
			if err != nil {
				return "", list[0].State
			}
			populated, _, _ := strings.Cut(string(text), "\n")
			return populated, list[0].State
		}
		want := func(populated string, state runtimeapi.ContainerState) {
			t.Helper()
			if p, s := show(); p != populated || s != state {
				t.Errorf("got %q and %v, want %q and %v", p, s, populated, state)
			}
		}
		want("", runtimeapi.ContainerState_CONTAINER_CREATED)
		done := make(chan error)
		go func() { done <- rt.Start(t.Context(), id) }()
		want("populated 1", runtimeapi.ContainerState_CONTAINER_CREATED)
		do(t, <-done)
		want("populated 1", runtimeapi.ContainerState_CONTAINER_RUNNING)
		time.Sleep(time.Hour - lag)
		want("populated 0", runtimeapi.ContainerState_CONTAINER_RUNNING)
		time.Sleep(lag * 3 / 5)
		want("", runtimeapi.ContainerState_CONTAINER_RUNNING)
		time.Sleep(lag * 2 / 5)
		want("", runtimeapi.ContainerState_CONTAINER_EXITED)
		do(t, rt.RemovePod(t.Context(), pod))
	})
	if got := paths(t, tree); !slices.Equal(got, atFirst) {
		t.Errorf("left over: %q", got)
	}
}

func TestClose(t *testing.T) {
	dir := t.TempDir()
	tree, err := New(dir)
	if err != nil {
		t.Fatal(err)
	}
	do(t, tree.Created(embedded.Cgroup{Parent: "/x", ID: id64("d")}), tree.Close(), tree.Close())
	do(t, tree.Created(embedded.Cgroup{Parent: "/x", ID: id64("e")}), tree.PodAdded("/y"))
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left over: %v, %v", left, err)
	}
	if _, err := New(filepath.Join(dir, "absent")); err == nil {
		t.Error("a tree below a directory that does not exist")
	}
}
