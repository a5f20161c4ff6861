package cgrouptree

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"sync"

	"github.com/hybrid-pleg/hybrid-pleg/internal/embedded"
)

const (
	eventsFile = "cgroup.events"
	procsFile  = "cgroup.procs"
)

// Tree is a hierarchy in a directory. It is an [embedded.Mirror]; its methods
// are safe for use by several goroutines.
type Tree struct {
	dir string

	mu     sync.Mutex
	nodes  map[string]*node
	closed bool
}

var _ embedded.Mirror = (*Tree)(nil)

// node is one cgroup that this package made.
type node struct {
	// populated counts the cgroups with processes, itself included, from here
	// downwards: the kernel shows populated 1 while there is one.
	populated int
	occupied  bool
	frozen    bool
	// kept nodes outlive their children.
	kept     bool
	children int
}

// New makes the hierarchy, with the cgroups that the kubelet makes before any pod
// (/kubepods and those of the QoS classes), in a new directory below parent, or
// below the directory for temporary files if parent is empty. [Tree.Close]
// removes it.
func New(parent string) (*Tree, error) {
	dir, err := os.MkdirTemp(parent, "hybrid-pleg-cgroup-")
	if err != nil {
		return nil, fmt.Errorf("a directory for the embedded runtime's cgroups: %w", err)
	}
	t := &Tree{dir: dir, nodes: map[string]*node{}}
	if err := t.lay(); err != nil {
		return nil, errors.Join(fmt.Errorf("lay out the embedded runtime's cgroups: %w", err), os.RemoveAll(dir))
	}
	return t, nil
}

// Root is the directory that stands for the mount point of the hierarchy.
func (t *Tree) Root() string { return filepath.Join(t.dir, "cgroup") }

// staging is where new directories are furnished.
func (t *Tree) staging() string { return filepath.Join(t.dir, "staging") }

// Close removes the hierarchy. What the runtime still has to say is ignored. It
// is safe to call it again.
func (t *Tree) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	return os.RemoveAll(t.dir)
}

func (t *Tree) lay() error {
	for _, dir := range []string{t.Root(), t.staging()} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
	}
	// The root of a hierarchy has no cgroup.events; cgroup.controllers is by what
	// programs tell version 2.
	for name, text := range map[string]string{
		"cgroup.controllers":     "cpu io memory pids\n",
		"cgroup.subtree_control": "cpu io memory pids\n",
		procsFile:                "",
	} {
		if err := os.WriteFile(filepath.Join(t.Root(), name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	for _, p := range []string{"/kubepods", "/kubepods/burstable", "/kubepods/besteffort"} {
		if err := t.make(p); err != nil {
			return err
		}
		t.nodes[p].kept = true
	}
	return nil
}

// PodAdded makes the cgroup of a pod.
func (t *Tree) PodAdded(parent string) error {
	return t.change(func() error {
		if err := t.make(podPath(parent)); err != nil {
			return err
		}
		if n := t.nodes[podPath(parent)]; n != nil {
			n.kept = true
		}
		return nil
	})
}

// Created makes the cgroup of a container.
func (t *Tree) Created(cg embedded.Cgroup) error {
	return t.change(func() error { return t.make(Path(cg)) })
}

// Populated puts cg.Pid into the container's cgroup.
func (t *Tree) Populated(cg embedded.Cgroup) error {
	return t.change(func() error { return t.occupy(Path(cg), cg.Pid) })
}

// Frozen shows whether the container is paused.
func (t *Tree) Frozen(cg embedded.Cgroup, frozen bool) error {
	return t.change(func() error {
		n := t.nodes[Path(cg)]
		if n == nil || n.frozen == frozen {
			return nil
		}
		n.frozen = frozen
		return t.writeEvents(Path(cg), n)
	})
}

// Emptied takes all processes out of the container's cgroup.
func (t *Tree) Emptied(cg embedded.Cgroup) error {
	return t.change(func() error { return t.occupy(Path(cg), 0) })
}

// Removed removes the cgroup of a container.
func (t *Tree) Removed(cg embedded.Cgroup) error {
	return t.change(func() error { return t.remove(Path(cg)) })
}

// PodRemoved removes the cgroup of a pod.
func (t *Tree) PodRemoved(parent string) error {
	p := podPath(parent)
	return t.change(func() error {
		n := t.nodes[p]
		if n == nil || isShared(p) {
			return nil
		}
		n.kept = false
		return t.remove(p)
	})
}

// isShared says whether the kubelet makes the cgroup for all pods, so that a
// client which names it as a pod's does not take it away.
func isShared(p string) bool {
	return p == "/" || p == "/kubepods" || p == "/kubepods/burstable" || p == "/kubepods/besteffort"
}

func (t *Tree) change(do func() error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil
	}
	return do()
}

// make makes a cgroup, and its ancestors where they are missing.
func (t *Tree) make(p string) error {
	if p == "/" || t.nodes[p] != nil {
		return nil
	}
	up := path.Dir(p)
	if err := t.make(up); err != nil {
		return err
	}
	made := filepath.Join(t.staging(), "new")
	n := &node{}
	err := os.Mkdir(made, 0o755)
	for name, text := range map[string]string{eventsFile: n.events(), procsFile: ""} {
		if err == nil {
			err = os.WriteFile(filepath.Join(made, name), []byte(text), 0o644)
		}
	}
	if err == nil {
		err = os.Rename(made, t.file(p, ""))
	}
	if err != nil {
		return errors.Join(fmt.Errorf("make cgroup %s: %w", p, err), os.RemoveAll(made))
	}
	t.nodes[p] = n
	if n := t.nodes[up]; n != nil {
		n.children++
	}
	return nil
}

// occupy writes who is in a cgroup (nobody, with pid 0) and then what that means
// for it and its ancestors, from below, as the kernel does.
func (t *Tree) occupy(p string, pid int) error {
	n := t.nodes[p]
	if n == nil || n.occupied == (pid != 0) {
		return nil
	}
	n.occupied = pid != 0
	text, step := "", -1
	if n.occupied {
		text, step = strconv.Itoa(pid)+"\n", 1
	}
	err := os.WriteFile(t.file(p, procsFile), []byte(text), 0o644)
	for ; p != "/"; p = path.Dir(p) {
		n := t.nodes[p]
		if n == nil {
			break
		}
		before := n.populated > 0
		n.populated += step
		if before != (n.populated > 0) {
			err = errors.Join(err, t.writeEvents(p, n))
		}
	}
	return err
}

// remove removes a cgroup, and the ancestors that were made only for it.
func (t *Tree) remove(p string) error {
	n := t.nodes[p]
	if n == nil || n.kept || n.children > 0 {
		return nil
	}
	err := t.occupy(p, 0)
	delete(t.nodes, p)
	for _, name := range []string{eventsFile, procsFile, ""} {
		if e := os.Remove(t.file(p, name)); e != nil && !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, fmt.Errorf("remove cgroup %s: %w", p, e))
		}
	}
	if up := t.nodes[path.Dir(p)]; up != nil {
		up.children--
		err = errors.Join(err, t.remove(path.Dir(p)))
	}
	return err
}

func (n *node) events() string {
	populated, frozen := "0", "0"
	if n.populated > 0 {
		populated = "1"
	}
	if n.frozen {
		frozen = "1"
	}
	return "populated " + populated + "\nfrozen " + frozen + "\n"
}

// writeEvents overwrites the file in one piece: its length never changes, so a
// reader sees the old or the new text, and a watcher one modification.
func (t *Tree) writeEvents(p string, n *node) error {
	f, err := os.OpenFile(t.file(p, eventsFile), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt([]byte(n.events()), 0)
	return errors.Join(err, f.Close())
}

func (t *Tree) file(p, name string) string {
	return filepath.Join(t.Root(), filepath.FromSlash(p), name)
}
