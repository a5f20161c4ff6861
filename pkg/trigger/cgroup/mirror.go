package cgroup

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/trigger"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/trigger/cgroupfs"
)

// node is one directory the source knows of.
type node struct {
	path  string // in the file system
	rel   string // in the hierarchy
	tree  *tree
	depth int // below the root, or below a container of no pod
	role  role
	id    uint64

	ref       trigger.CgroupRef
	podUID    string
	populated bool

	children map[string]*node
	parent   *node

	watched   bool // the directory
	candidate bool // counted as such
}

// mayBeNode reports whether the container may have a kubelet and containers of its own.
func (n *node) mayBeNode() bool {
	return n.ref.Class == trigger.CgroupOtherContainer && !n.ref.HasPod()
}

// mayBeParent reports whether containers may come to be below, without any being
// there for sure.
func (n *node) mayBeParent() bool {
	return n.role == roleCandidate || n.role == roleContainer && n.mayBeNode()
}

func (n *node) events() string { return n.path + "/" + cgroupfs.EventsFile }

// aliveIndex is told which containers there are.
type aliveIndex interface {
	added(id, dir string, preferred bool)
	removed(id, dir string)
}

// mirror is what the source knows of the trees. One goroutine owns it.
type mirror struct {
	ctx   context.Context
	log   *slog.Logger
	watch watcher
	sink  trigger.Sink
	index aliveIndex

	trees  []*tree
	nodes  map[string]*node // by path
	unread []*node          // watched and still to be read
	quiet  bool             // makes no signals

	candidates, maxCandidates int
	full                      bool // said that no more candidates fit
}

// errRootGone says that a watched root itself was removed.
var errRootGone = errors.New("the root of the watched cgroups was removed")

func (m *mirror) roots() []string {
	var roots []string
	for _, t := range m.trees {
		roots = append(roots, t.root)
	}
	return roots
}

// handle takes one event of the watcher.
func (m *mirror) handle(ev fsnotify.Event) error {
	dir, name := filepath.Split(ev.Name)
	dir = strings.TrimSuffix(dir, string(filepath.Separator))
	if name == cgroupfs.EventsFile {
		if ev.Has(fsnotify.Write) || ev.Has(fsnotify.Create) {
			m.refresh(m.nodes[dir])
		}
		return nil
	}
	switch {
	case ev.Has(fsnotify.Create):
		if parent := m.nodes[dir]; parent != nil {
			if err := m.found(parent, name); err != nil {
				return err
			}
			return m.read()
		}
	case ev.Has(fsnotify.Remove), ev.Has(fsnotify.Rename):
		n := m.nodes[ev.Name]
		if n == nil || m.outdated(n) {
			return nil
		}
		if n.role == roleRoot {
			return fmt.Errorf("%w: %s", errRootGone, n.path)
		}
		m.remove(n)
	}
	// Writes to cgroup.procs and the like, which can't be masked out.
	return nil
}

// outdated reports whether the news that n went is about a cgroup of the same name
// before it: a scan after an overflow may already know what events still queued
// do not. A kernel never uses a cgroup's number again; other file systems do so
// with inodes, where the events have to be believed.
func (m *mirror) outdated(n *node) bool {
	if n.tree.flavour == flavourPlain || n.id == 0 {
		return false
	}
	info, err := os.Lstat(n.path)
	return err == nil && cgroupfs.ID(info) == n.id
}

// refresh reads whether a container has processes and tells when that changed.
// The kernel joins flips less than about 10 ms apart, so that the file counts and not
// the event; a container that ran between two looks goes unnoticed here.
func (m *mirror) refresh(n *node) {
	if n == nil || n.role != roleContainer || n.tree.flavour == flavourV1 {
		return
	}
	populated, err := cgroupfs.Populated(n.path)
	if err != nil || populated == n.populated {
		return // gone, or half written: another event follows
	}
	n.populated = populated
	if populated {
		m.signal(trigger.KindStarted, n)
	} else {
		m.signal(trigger.KindExited, n)
	}
}

func (m *mirror) signal(kind trigger.Kind, n *node) {
	if m.quiet {
		return
	}
	m.sink.Signal(trigger.Signal{
		Source: trigger.SourceCgroup, Kind: kind, PodUID: n.podUID, ContainerID: n.ref.ContainerID,
		CgroupID: n.id, Foreign: !n.ref.CRI(), At: time.Now(),
	})
}

func (m *mirror) signalLost() {
	m.sink.Signal(trigger.Signal{Source: trigger.SourceCgroup, Kind: trigger.KindLost, At: time.Now()})
}

// sayFull tells once that directories are left out.
func (m *mirror) sayFull(n *node) {
	if m.full {
		return
	}
	m.full = true
	m.log.Warn("too many cgroups that may hold containers: leaving some out; if a runtime's parent is among them, name it with --cgroup-root",
		"limit", m.maxCandidates, "first", n.path)
}

// addWatch tolerates that the cgroup went.
func (m *mirror) addWatch(path string) error {
	err := m.watch.Add(path)
	switch {
	case err == nil, isGone(err), errors.Is(err, syscall.ENODEV):
		return nil
	case errors.Is(err, os.ErrPermission):
		m.log.Debug("can't watch a cgroup", "path", path, "err", err)
		return nil
	default:
		return limitError(err, "watch "+path)
	}
}

// dropWatch tolerates that the kernel was faster, as Linux 7.3 is with removed
// cgroups: fsnotify then knows of no watch, or the kernel of none.
func (m *mirror) dropWatch(path string, watched bool) {
	if !watched {
		return
	}
	if err := m.watch.Remove(path); err != nil && !errors.Is(err, fsnotify.ErrNonExistentWatch) && !errors.Is(err, syscall.EINVAL) {
		m.log.Debug("can't remove a watch", "path", path, "err", err)
	}
}
