//go:build linux

package bpf

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/bpf/bpftest"
	"github.com/hybrid-pleg/hybrid-pleg/internal/testutil"
)

func TestMain(m *testing.M) { os.Exit(bpftest.Main(m)) }

// bench is a probe that sees only what happens in one test's tree.
type bench struct {
	*testing.T
	tree  *bpftest.Tree
	probe *Probe
}

// TestProbe has what can happen to a container happen in each kind of hierarchy the probe
// knows. All of it is seen by one probe, since loading one takes long on an emulated machine. On
// a host with v2 alone the v1 half says that it is skipped.
func TestProbe(t *testing.T) {
	type testCase struct {
		name string
		test func(*bench)
	}
	cases := []testCase{
		{"start and exit", startAndExit},
		{"what is not told", whatIsNotTold},
		{"exit after exec by another thread", exitAfterExecByAnotherThread},
		{"hook before the workload", hookBeforeTheWorkload},
		{"helper stage gives way", helperStageGivesWay},
		{"surviving child", survivingChild},
		{"cgroups below the container", cgroupsBelowTheContainer},
		{"evicted", evicted},
		{"many execs inside", manyExecsInside},
	}
	// What v1 has no means for, or does not tell on a hybrid host, or what is the same there.
	v2 := []testCase{
		{"stage is no workload", stageIsNoWorkload},
		{"emptied without exec", emptiedWithoutExec},
		{"what is a container", whatIsAContainer},
		{"deep path keeps the innermost", deepPathKeepsTheInnermost},
		{"interrupt", interrupt},
		{"more containers than the map holds", moreContainersThanTheMapHolds}, // which forgets all others
	}
	hierarchies(t, func(all *bench) {
		all.attach()
		cases := cases
		if all.tree.Hierarchy() == bpftest.V2 {
			cases = slices.Concat(cases, v2)
		}
		for _, c := range cases {
			all.Run(c.name, func(t *testing.T) {
				c.test(&bench{T: t, tree: bpftest.NewTree(t, all.tree.Hierarchy()), probe: all.probe})
			})
		}
	})
}

// hierarchies runs a test in each kind of hierarchy, with a probe that is not attached yet.
func hierarchies(t *testing.T, test func(*bench)) {
	t.Helper()
	v1 := func(t *testing.T) V1Hierarchy {
		return V1Hierarchy{Controller: bpftest.Controller, ID: bpftest.V1ID(t)}
	}
	t.Run("v2", func(t *testing.T) { test(loadBench(t, bpftest.V2, Options{})) })
	t.Run("v1", func(t *testing.T) { test(loadBench(t, bpftest.V1, Options{WithoutV2: true, V1: v1(t)})) })
	t.Run("v1 on a hybrid host", func(t *testing.T) {
		if !bpftest.Has(bpftest.V2) {
			t.Skip("this is no hybrid host")
		}
		test(loadBench(t, bpftest.V1, Options{V1: v1(t)}))
	})
}

func newBench(t *testing.T, h bpftest.Hierarchy, opts Options) *bench {
	t.Helper()
	b := loadBench(t, h, opts)
	b.attach()
	return b
}

func loadBench(t *testing.T, h bpftest.Hierarchy, opts Options) *bench {
	t.Helper()
	tree := bpftest.NewTree(t, h) // skips before the probe is loaded
	probe, err := Load(opts)
	if errors.Is(err, ErrUnsupported) {
		testutil.Need(t, "ebpf", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := probe.Close(); err != nil {
			t.Error(err)
		}
	})
	return &bench{T: t, tree: tree, probe: probe}
}

func (b *bench) attach() {
	b.Helper()
	if err := b.probe.Attach(); err != nil {
		b.Fatal(err)
	}
}

// key is what the probe calls a container of this tree.
func (b *bench) key(c *bpftest.Container) Cgroup {
	key := Cgroup{ID: c.CgroupID}
	if b.tree.Hierarchy() == bpftest.V1 {
		key.Hierarchy = bpftest.V1ID(b)
	}
	return key
}

// next returns the next record of this tree; other tests may run on the host.
func (b *bench) next() Record {
	b.Helper()
	var rec Record
	base := strings.TrimPrefix(b.tree.Base(), b.tree.Root())
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); {
		if err := b.probe.Read(&rec, time.Until(deadline)); err != nil {
			b.Fatal(err)
		}
		if strings.HasPrefix(rec.Path, base) {
			return rec
		}
	}
	b.Fatal("no record came")
	return Record{}
}

func (b *bench) want(kind Kind, c *bpftest.Container, pid int) {
	b.Helper()
	got := b.next()
	if got.Kind != kind || got.Path != c.Path || got.Cgroup.ID != c.CgroupID || got.TGID != uint32(pid) {
		b.Fatalf("got %v of process %d in cgroup %d, %s\nwant %v of process %d in cgroup %d, %s",
			got.Kind, got.TGID, got.Cgroup.ID, got.Path, kind, pid, c.CgroupID, c.Path)
	}
}

// wantNothing starts and ends another container and fails if there is a record before these:
// the ring buffer keeps the order.
func (b *bench) wantNothing() {
	b.Helper()
	c := b.tree.Container(b)
	p := c.Start(b)
	b.want(KindStarted, c, p.PID)
	p.Quit(b)
	b.want(KindExited, c, p.PID)
}

func startAndExit(b *bench) {
	c := b.tree.Container(b)
	p := c.Start(b)
	b.want(KindStarted, c, p.PID)
	p.Quit(b)
	b.want(KindExited, c, p.PID)
	b.wantNothing()
}

func whatIsNotTold(b *bench) {
	c := b.tree.Container(b)
	p := c.Start(b)
	b.want(KindStarted, c, p.PID)

	p.Do(b, "run 100") // its own children
	b.wantNothing()
	other := c.Start(b) // kubectl exec: a parent outside, but a workload is there
	other.Do(b, "run 3")
	other.Quit(b)
	b.wantNothing()
	p.Do(b, "exec") // sh -c "exec …"
	p.Do(b, "thread-exec")
	b.wantNothing()
	p.Do(b, "leader-exit")
	b.wantNothing()
	p.Quit(b)
	b.want(KindExited, c, p.PID)
	b.wantNothing()
}

func exitAfterExecByAnotherThread(b *bench) {
	c := b.tree.Container(b)
	p := c.Init(b)
	p.Do(b, "thread-exec")
	b.want(KindStarted, c, p.PID)
	p.Quit(b)
	b.want(KindExited, c, p.PID)
}

// As runc does it: init is moved into the cgroup, runs a startContainer hook there, and
// execs the workload.
func hookBeforeTheWorkload(b *bench) {
	c := b.tree.Container(b)
	p := c.Init(b)
	p.Do(b, "run 2")
	b.wantNothing()
	p.Do(b, "exec")
	b.want(KindStarted, c, p.PID)
	p.Quit(b)
	b.want(KindExited, c, p.PID)
}

// The exec of the first stage of `runc init` may end in the cgroup.
func stageIsNoWorkload(b *bench) {
	c := b.tree.Container(b)
	p := c.Init(b) // keeps the cgroup populated
	c.Stage(b).Quit(b)
	b.wantNothing()
	p.Do(b, "exec")
	b.want(KindStarted, c, p.PID)
	p.Quit(b)
	b.want(KindExited, c, p.PID)
}

// A stage that deceives the rule gives way to the workload when it ends.
func helperStageGivesWay(b *bench) {
	c := b.tree.Container(b)
	p := c.Init(b) // keeps the cgroup populated
	helper := c.Start(b)
	b.want(KindStarted, c, helper.PID)
	helper.Quit(b)
	b.want(KindExited, c, helper.PID)
	p.Do(b, "exec")
	b.want(KindStarted, c, p.PID)
	p.Quit(b)
	b.want(KindExited, c, p.PID)
	b.wantNothing()
}

func survivingChild(b *bench) {
	c := b.tree.Container(b)
	p := c.Start(b)
	b.want(KindStarted, c, p.PID)
	p.Do(b, "spawn")
	b.wantNothing()
	p.Quit(b)
	b.want(KindExited, c, p.PID) // though the cgroup stays populated
	b.wantNothing()
}

func cgroupsBelowTheContainer(b *bench) {
	c := b.tree.Container(b)
	nested := c.Below(b, "container") // crun
	p := nested.Start(b)
	b.want(KindStarted, c, p.PID)
	deep := c.Below(b, "system.slice/a.slice/b.service") // systemd
	p.Do(b, "move "+deep.Dir)
	p.Do(b, "run 3")
	b.wantNothing()
	p.Quit(b)
	b.want(KindExited, c, p.PID)
	b.wantNothing()
}

// A workload that never execs: restored by CRIU, or no such program.
func emptiedWithoutExec(b *bench) {
	c := b.tree.Container(b)
	p := c.Init(b)
	p.Quit(b)
	b.want(KindEmpty, c, 0)
	b.wantNothing()
}

// A container that ran before the probe came, and that nobody told it of: an exec probe in
// it is not its workload, and its end is told.
func TestOlderThanTheProbe(t *testing.T) {
	hierarchies(t, func(b *bench) {
		c := b.tree.Container(b)
		p := c.Start(b)
		b.attach()
		for range 3 {
			c.Start(b).Quit(b)
		}
		b.wantNothing()
		p.Quit(b)
		b.want(KindEmpty, c, 0)
		b.wantNothing()
	})
}

// The same for one whose entry fell out of the map.
func evicted(b *bench) {
	c := b.tree.Container(b)
	p := c.Start(b)
	b.want(KindStarted, c, p.PID)
	if err := b.probe.Forget(b.key(c)); err != nil {
		b.Fatal(err)
	}
	c.Start(b).Quit(b)
	b.wantNothing()
	p.Quit(b)
	b.want(KindEmpty, c, 0)
	b.wantNothing()
}

// Restored by CRIU, so that the first exec in it is that of an exec probe: this passes for
// the workload, but the end of the container is told all the same.
func TestExecProbeInARestoredContainer(t *testing.T) {
	// Nothing counts as the same end, as if long had passed.
	b := newBench(t, bpftest.V2, Options{sameEnd: time.Nanosecond})
	c := b.tree.Container(b)
	p := c.Init(b)
	other := c.Start(b)
	b.want(KindStarted, c, other.PID)
	other.Quit(b)
	b.want(KindExited, c, other.PID)
	p.Quit(b)
	b.want(KindEmpty, c, 0)
}

func whatIsAContainer(all *bench) {
	id := bpftest.ID()
	nested := "docker-" + bpftest.ID() + ".scope/kubelet/kubepods/pod1/" + id // the innermost wins
	long := strings.Repeat("x", 255-65)
	for _, test := range []struct {
		path, container string // container is the part of the path that is told; none if empty
	}{
		{"cri-containerd-" + id + ".scope", "cri-containerd-" + id + ".scope"},
		{"crio-" + id, "crio-" + id},
		{"crio-" + id + ".scope/container", "crio-" + id + ".scope"},
		{"a.slice:cri-containerd:" + id, "a.slice:cri-containerd:" + id},
		{long + "-" + id, long + "-" + id},
		{nested, nested},
		{"crio-conmon-" + id + ".scope", ""},
		{"libpod-conmon-" + id, ""},
		{"conmon-" + id, ""},
		{"crio-" + id + ".mount", ""},
		{id + ".service", ""},
		{id[:63], ""},
		{id[:63] + "g", ""},
		{strings.ToUpper(id[:63]) + "A", ""},
		{id + "0", ""},
		{"x" + id, ""},
		{id[:58] + ".scope", ""},
		{"vte-spawn-868f9513-eee8-457d-8e36-1b37ae8ae622.scope", ""},
	} {
		all.Run(test.path, func(t *testing.T) {
			b := *all
			b.T = t
			p := b.tree.At(t, test.path).Start(t)
			if test.container != "" {
				b.want(KindStarted, b.tree.At(t, test.container), p.PID)
			}
			p.Quit(t)
			if test.container != "" {
				b.want(KindExited, b.tree.At(t, test.container), p.PID)
			}
			if outer, _, ok := strings.Cut(test.path, "/kubelet/"); ok {
				b.want(KindEmpty, b.tree.At(t, outer), 0) // populated counts what is below
			}
			b.wantNothing()
		})
	}
}

func deepPathKeepsTheInnermost(b *bench) {
	c := b.tree.At(b, strings.Repeat("d/", 20)+"pod1/"+bpftest.ID())
	p := c.Start(b)
	var rec Record
	for rec.TGID != uint32(p.PID) {
		if err := b.probe.Read(&rec, 10*time.Second); err != nil {
			b.Fatal(err)
		}
	}
	if want := filepath.Join("/", strings.Repeat("d/", 10), "pod1", filepath.Base(c.Path)); rec.Path != want {
		b.Errorf("path %s\nwant %s", rec.Path, want)
	}
}
