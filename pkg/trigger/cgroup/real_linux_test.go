package cgroup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/trigger"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/trigger/cgroupfs"
)

// These tests work on the host's own cgroups. Each makes one directory there and
// removes it with all that is below, whatever happens.

func TestRealFlip(t *testing.T) {
	v2, _ := hierarchies(t)
	root := scratch(t, v2, 2)
	rec := newRecorder()
	src := New(Options{Root: root, Log: logTo(t)})
	start(t, src, rec)

	id, uid := fakeID(1), fakeUID(1)
	dir := mkdir(t, root, "kubepods", "burstable", "pod"+uid, id)
	info, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	who := " pod=" + uid + " container=" + id
	expect(t, rec, id, "cgroup-added"+who)
	if alive, known := src.Alive(id); alive || !known {
		t.Errorf("before: alive %v, known %v", alive, known)
	}

	end := runIn(t, dir)
	expect(t, rec, id, "cgroup-added"+who, "started"+who)
	if alive, known := src.Alive(id); !alive || !known {
		t.Errorf("while it runs: alive %v, known %v", alive, known)
	}
	end()
	expect(t, rec, id, "cgroup-added"+who, "started"+who, "exited"+who)
	if alive, known := src.Alive(id); alive || !known {
		t.Errorf("after: alive %v, known %v", alive, known)
	}

	rmdir(t, dir)
	expect(t, rec, id, "cgroup-added"+who, "started"+who, "exited"+who, "cgroup-removed"+who)
	if alive, known := src.Alive(id); alive || known {
		t.Errorf("removed: alive %v, known %v", alive, known)
	}
	rmdir(t, filepath.Dir(dir))
	expect(t, rec, uid, "cgroup-added pod="+uid, "cgroup-removed pod="+uid)

	signals, _ := rec.snapshot()
	for _, s := range signals {
		if s.ContainerID == id && s.CgroupID != cgroupfs.ID(info) || s.Source != trigger.SourceCgroup || s.At.IsZero() {
			t.Errorf("cgroup %d: %+v", cgroupfs.ID(info), s)
		}
	}
}

// A process of a nested cgroup keeps the container's populated, as with crun.
func TestRealNestedProcess(t *testing.T) {
	v2, _ := hierarchies(t)
	root := scratch(t, v2, 2)
	rec := newRecorder()
	src := New(Options{Root: root, Log: logTo(t)})
	start(t, src, rec)

	id := fakeID(1)
	child := mkdir(t, root, "machine.slice", "crio-"+id+".scope", "container")
	end := runIn(t, child)
	expect(t, rec, id, "cgroup-added container="+id, "started container="+id)
	if alive, known := src.Alive(id); !alive || !known {
		t.Errorf("alive %v, known %v", alive, known)
	}
	end()
	expect(t, rec, id, "cgroup-added container="+id, "started container="+id, "exited container="+id)
}

// Without --cgroup-root the source finds the hierarchies, and in them a kubelet's
// root wherever it is made.
func TestRealFindsRoots(t *testing.T) {
	v2, _ := hierarchies(t)
	root := scratch(t, v2, 2)
	before := mkdir(t, root, "kubepods", "besteffort", "pod"+fakeUID(0x7e57), fakeID(0x7e570))
	rec := newRecorder()
	src := New(Options{Log: logTo(t)})
	start(t, src, rec)

	end := runIn(t, before)
	who := " pod=" + fakeUID(0x7e57) + " container=" + fakeID(0x7e570)
	expect(t, rec, fakeID(0x7e570), "started"+who)
	end()
	expect(t, rec, fakeID(0x7e570), "started"+who, "exited"+who)

	id := fakeID(0x7e571)
	mkdir(t, root, "node.slice", "docker-"+fakeID(0x7e572)+".scope", "kubelet.slice", "kubelet-kubepods.slice", "kubelet-kubepods-besteffort.slice",
		"kubelet-kubepods-besteffort-pod"+strings.ReplaceAll(fakeUID(0x7e58), "-", "_")+".slice", "cri-containerd-"+id+".scope")
	expect(t, rec, id, "cgroup-added pod="+fakeUID(0x7e58)+" container="+id)
}

func TestRealV1(t *testing.T) {
	_, v1 := hierarchies(t)
	root := scratch(t, v1, 1)
	rec := newRecorder()
	src := New(Options{Root: root, Log: logTo(t)})
	start(t, src, rec)

	id, uid := fakeID(1), fakeUID(1)
	dir := mkdir(t, root, "kubepods", "pod"+uid, id)
	who := " pod=" + uid + " container=" + id
	expect(t, rec, id, "cgroup-added"+who)

	cmd := exec.Command("cat")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), fmt.Append(nil, cmd.Process.Pid), 0); err != nil {
		t.Error(err)
	}
	if alive, known := src.Alive(id); !alive || !known {
		t.Errorf("while it runs: alive %v, known %v", alive, known)
	}
	in.Close()
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if alive, known := src.Alive(id); alive || !known {
		t.Errorf("after: alive %v, known %v", alive, known)
	}
	rmdir(t, dir)
	expect(t, rec, id, "cgroup-added"+who, "cgroup-removed"+who)
}

// On a hybrid host v1 is watched only until the CRI's containers show in v2.
func TestRealHybrid(t *testing.T) {
	v2, v1 := hierarchies(t)
	rootV2, rootV1 := scratch(t, v2, 2), scratch(t, v1, 1)
	id := fakeID(0x7e573)
	only1 := fakeID(0x7e574)

	rec := newRecorder()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	w, err := newWatcher()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	m := &mirror{
		ctx: ctx, log: logTo(t), watch: w, sink: rec, index: New(Options{}), nodes: make(map[string]*node), maxCandidates: 10,
		trees: []*tree{{root: rootV2, flavour: flavourV2}, {root: rootV1, flavour: flavourV1, fallback: true}},
	}
	if err := m.syncAll(); err != nil {
		t.Fatal(err)
	}
	// step takes events until the signals number n.
	step := func(n int) []trigger.Signal {
		for {
			signals, _ := rec.snapshot()
			if len(signals) >= n {
				return signals
			}
			select {
			case ev := <-w.Events():
				if err := m.handle(ev); err != nil {
					t.Fatal(err)
				}
			case <-time.After(patience):
				t.Fatalf("%d signals instead of %d:\n%s", len(signals), n, format(signals))
			}
		}
	}

	mkdir(t, rootV1, "k8s.io", only1)
	if got := line(step(1)[0]); got != "cgroup-added container="+only1 {
		t.Errorf("v1: %s", got)
	}
	if len(m.roots()) != 2 {
		t.Errorf("roots: %q", m.roots())
	}
	mkdir(t, rootV2, "k8s.io", id)
	if got := line(step(2)[1]); got != "cgroup-added container="+id {
		t.Errorf("v2: %s", got)
	}
	if got := m.roots(); len(got) != 1 || got[0] != rootV2 {
		t.Errorf("roots: %q", got)
	}
	for _, path := range w.(fsWatcher).WatchList() {
		if strings.HasPrefix(path, rootV1) {
			t.Errorf("still watched: %s", path)
		}
	}
}

// The root of the tree is watched for its own removal, of which the kernel tells
// only its parent.
func TestRealRootRemoved(t *testing.T) {
	v2, _ := hierarchies(t)
	root := mkdir(t, scratch(t, v2, 2), "kubepods.slice")
	rec := newRecorder()
	ended := make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() { ended <- New(Options{Root: root}).Run(ctx, rec) }()
	rec.waitUp(t)
	rmdir(t, root)
	select {
	case err := <-ended:
		if !errors.Is(err, errRootGone) || errors.Is(err, trigger.ErrUnsupported) {
			t.Errorf("Run: %v", err)
		}
	case <-time.After(patience):
		t.Error("Run goes on without its root")
	}
}

// An event that was queued before a scan must not undo what the scan found.
func TestRealOutdatedRemoval(t *testing.T) {
	v2, _ := hierarchies(t)
	root := scratch(t, v2, 2)
	id := fakeID(1)
	dir := mkdir(t, root, "k8s.io", id)
	w, rec := newFakeWatcher(), newRecorder()
	src := New(Options{Root: root, Log: logTo(t)})
	src.newWatcher = func() (watcher, error) { return w, nil }
	start(t, src, rec)

	// The source takes an event when it is done with the one before.
	handled := func() { w.events <- fsnotify.Event{Name: dir, Op: fsnotify.Chmod} }
	w.events <- fsnotify.Event{Name: dir, Op: fsnotify.Remove}
	handled()
	rmdir(t, dir)
	mkdir(t, dir)
	w.events <- fsnotify.Event{Name: dir, Op: fsnotify.Create}
	handled()
	rmdir(t, dir)
	w.events <- fsnotify.Event{Name: dir, Op: fsnotify.Remove}
	who := " container=" + id
	expect(t, rec, id, "cgroup-removed"+who, "cgroup-added"+who, "cgroup-removed"+who)
}

// A thousand containers leave nothing behind: no watch, descriptor or node. That no
// goroutine is left is for TestMain to see.
func TestRealLeavesNothing(t *testing.T) {
	v2, _ := hierarchies(t)
	root := scratch(t, v2, 2)
	pods := mkdir(t, root, "kubepods", "burstable")
	rec := newRecorder()
	src := New(Options{Root: root, Log: logTo(t)})
	fdsBefore := descriptors(t)
	watchesBefore := watchesOf(t)
	stop := start(t, src, rec)
	fds, watches := descriptors(t), watchesOf(t)
	if watches <= watchesBefore {
		t.Fatalf("%d watches before, %d after the start", watchesBefore, watches)
	}

	const perPod = 10
	containers := 1000
	if testing.Short() {
		containers = 200
	}
	for i := range containers / perPod {
		pod := mkdir(t, pods, "pod"+fakeUID(i))
		for k := range perPod {
			mkdir(t, pod, fakeID(i*perPod+k))
		}
		rec.waitFor(t, "pod's containers", func(s []trigger.Signal) bool { return len(s) >= (2*i+1)*(perPod+1) })
		if n := watchesOf(t); n != watches+1+perPod {
			t.Fatalf("%d watches for a pod of %d containers", n-watches, perPod)
		}
		removeCgroups(t, pod)
		rec.waitFor(t, "pod's removal", func(s []trigger.Signal) bool { return len(s) >= (2*i+2)*(perPod+1) })
	}
	want := 2 * (containers + containers/perPod)
	signals, _ := rec.snapshot()
	count := map[trigger.Kind]int{}
	for _, s := range signals {
		count[s.Kind]++
	}
	if count[trigger.KindCgroupAdded] != want/2 || count[trigger.KindCgroupRemoved] != want/2 {
		t.Errorf("signals: %v", count)
	}
	if n := watchesOf(t); n != watches {
		t.Errorf("%d watches left", n-watches)
	}
	if n := descriptors(t); n != fds {
		t.Errorf("%d descriptors left", n-fds)
	}
	for i := range containers {
		if _, known := src.Alive(fakeID(i)); known {
			t.Errorf("container %d is still known", i)
		}
	}
	stop()
	if n := descriptors(t); n != fdsBefore {
		t.Errorf("%d descriptors left after Run", n-fdsBefore)
	}
	if n := watchesOf(t); n != watchesBefore {
		t.Errorf("%d watches left after Run", n-watchesBefore)
	}
}

// Many short lives: each container is told as started and exited, or neither where
// both came between two looks. One that came and went before the new pod's own
// directory was watched goes unseen, but its pod is told.
func TestRealStorm(t *testing.T) {
	v2, _ := hierarchies(t)
	root := scratch(t, v2, 2)
	rec := newRecorder()
	start(t, New(Options{Root: root, Log: logTo(t)}), rec)
	const containers, perPod = 100, 4
	for i := range containers {
		dir := mkdir(t, root, "kubepods", "pod"+fakeUID(i/perPod), fakeID(i))
		f, err := os.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("true")
		cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(f.Fd())}
		if err := cmd.Run(); err != nil {
			t.Fatal(err)
		}
		f.Close()
		rmdir(t, dir)
	}
	last := fakeUID(containers)
	mkdir(t, root, "kubepods", "pod"+last)
	signals := rec.waitFor(t, "last pod", func(s []trigger.Signal) bool { return len(of(s, last)) > 0 })
	seen, unseen := 0, 0
	for i := range containers {
		var kinds []string
		for _, s := range signals {
			if s.ContainerID == fakeID(i) {
				kinds = append(kinds, string(s.Kind))
			}
		}
		switch got := strings.Join(kinds, " "); got {
		case "cgroup-added started exited cgroup-removed":
			seen++
		case "cgroup-added cgroup-removed":
		case "":
			unseen++
		default:
			t.Errorf("container %d: %s", i, got)
		}
	}
	for i := range containers / perPod {
		if got := of(signals, fakeUID(i)); len(got) != 1 {
			t.Errorf("pod %d: %q", i, got)
		}
	}
	t.Logf("of %d short lives %d were seen populated and %d not at all", containers, seen, unseen)
}
