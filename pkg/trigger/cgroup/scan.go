package cgroup

import (
	"fmt"
	"os"
	"path"
	"path/filepath"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/trigger"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/trigger/cgroupfs"
)

// syncAll makes the mirror equal to what is there now.
func (m *mirror) syncAll() error {
	m.unread = m.unread[:0]
	for _, t := range m.trees {
		root := m.nodes[t.root]
		if root == nil {
			root = &node{path: t.root, rel: t.prefix, tree: t, role: roleRoot, watched: true}
			for _, dir := range []string{t.root, t.guard} {
				if dir == "" {
					continue
				}
				if err := m.watch.Add(dir); err != nil {
					return limitError(err, "watch "+dir)
				}
			}
			m.nodes[t.root] = root
		}
		m.unread = append(m.unread, root)
	}
	for _, n := range m.nodes {
		m.refresh(n)
	}
	return m.read()
}

// read reads the directories that are due and those found in them. It goes level
// by level, so that a deep tree doesn't use up the candidates before the one beside
// it is looked at.
func (m *mirror) read() error {
	for len(m.unread) > 0 {
		if err := m.ctx.Err(); err != nil {
			return err
		}
		n := m.unread[0]
		m.unread = m.unread[1:]
		if m.nodes[n.path] != n {
			continue // removed meanwhile
		}
		if err := m.sync(n); err != nil {
			return err
		}
	}
	m.unread = nil
	return nil
}

// sync compares a watched directory with what is known of it. Its watch was added
// before, so that nothing gets lost in between: mkdir -p may report no more than
// the first directory it makes.
func (m *mirror) sync(n *node) error {
	entries, err := os.ReadDir(n.path)
	switch {
	case n.role == roleRoot && err != nil:
		return fmt.Errorf("read %s: %w", n.path, err)
	case isGone(err):
		return nil // the parent's watch tells
	case err != nil:
		m.log.Debug("can't read a cgroup", "dir", n.path, "err", err)
		return nil
	}
	if len(n.children) > 0 {
		there := make(map[string]bool, len(entries))
		for _, e := range entries {
			there[e.Name()] = true
		}
		for name, child := range n.children {
			if !there[name] {
				m.remove(child)
			}
		}
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		known := n.children[e.Name()]
		if err := m.found(n, e.Name()); err != nil {
			return err
		}
		if known != nil && known.watched && n.children[e.Name()] == known {
			m.unread = append(m.unread, known)
		}
	}
	return nil
}

// found looks at a child of parent that was made, or read from the directory.
func (m *mirror) found(parent *node, name string) error {
	if !parent.watched {
		return nil
	}
	rel := path.Join(parent.rel, name)
	role, ref := classify(parent, rel)
	if role == roleNone {
		return nil
	}
	n := &node{
		path: filepath.Join(parent.path, name), rel: rel, tree: parent.tree, parent: parent, depth: parent.depth + 1,
		role: role, ref: ref, podUID: ref.PodUID(),
	}
	known := m.nodes[n.path]
	info, err := os.Lstat(n.path)
	if err != nil {
		// A pod or container that went at once was there all the same. It gets no node:
		// the news that it went need not be in the queue, because an overflow drops some
		// and is told before what came before it.
		if known == nil && (role == rolePod || role == roleContainer) {
			m.signal(trigger.KindCgroupAdded, n)
			m.signal(trigger.KindCgroupRemoved, n)
		}
		return nil
	}
	if !info.IsDir() {
		return nil
	}
	n.id = cgroupfs.ID(info)
	if known != nil {
		if known.id == n.id || n.id == 0 {
			return nil
		}
		m.remove(known) // one of the same name took its place
	}
	return m.add(n)
}

// add takes a new directory in, and watches it as its role says.
func (m *mirror) add(n *node) error {
	isContainer := n.role == roleContainer
	switch {
	case n.mayBeParent():
		n.candidate = m.candidates < m.maxCandidates
		// The few at the top may be a runtime's own parents: these always fit.
		n.watched = n.candidate || n.parent.role == roleRoot && !isContainer
		if !n.watched {
			m.sayFull(n)
			if !isContainer {
				return nil
			}
		}
	default:
		n.watched = !isContainer
	}
	if isContainer {
		n.depth = 0
		// In a plain directory cgroup.events may be made later: the directory tells.
		n.watched = n.watched || n.tree.flavour == flavourPlain
	}
	if n.watched {
		if err := m.addWatch(n.path); err != nil {
			return err
		}
	}
	if isContainer && n.tree.flavour == flavourV2 {
		if err := m.addWatch(n.events()); err != nil {
			return err
		}
	}

	m.nodes[n.path] = n
	if n.parent.children == nil {
		n.parent.children = make(map[string]*node)
	}
	n.parent.children[filepath.Base(n.path)] = n
	if n.candidate {
		m.candidates++
	}
	if n.watched {
		m.unread = append(m.unread, n)
	}
	if isContainer {
		// First: who gets the signal may ask for the container at once.
		m.index.added(n.ref.ContainerID, n.path, n.tree.flavour != flavourV1)
	}
	if isContainer || n.role == rolePod {
		m.signal(trigger.KindCgroupAdded, n)
	}
	if isContainer {
		m.refresh(n)
		m.leaveFallbacks(n)
	}
	return nil
}

// remove forgets a directory and all that is below it.
func (m *mirror) remove(n *node) {
	for _, child := range n.children {
		m.remove(child)
	}
	if m.nodes[n.path] != n {
		return
	}
	delete(m.nodes, n.path)
	if n.parent != nil {
		delete(n.parent.children, filepath.Base(n.path))
	}
	if n.candidate {
		m.candidates--
	}
	// Up to Linux 6.18 at least, the watch of a removed cgroup stays for ever if it
	// isn't removed by hand.
	m.dropWatch(n.path, n.watched)
	if n.role == roleContainer {
		m.dropWatch(n.events(), n.tree.flavour == flavourV2)
		m.index.removed(n.ref.ContainerID, n.path)
		if n.populated {
			// rmdir takes an empty cgroup; its last flip was overtaken, or one with the
			// flip before.
			m.signal(trigger.KindExited, n)
		}
	}
	if n.role == roleContainer || n.role == rolePod {
		m.signal(trigger.KindCgroupRemoved, n)
	}
}

// leaveFallbacks gives up the trees that were watched only in case the runtime
// does not use the better one.
func (m *mirror) leaveFallbacks(n *node) {
	if n.tree.fallback || !n.ref.CRI() {
		return
	}
	kept := make([]*tree, 0, len(m.trees))
	for _, t := range m.trees {
		if !t.fallback {
			kept = append(kept, t)
			continue
		}
		m.log.Debug("containers show in a better hierarchy: not watching this one any more", "root", t.root)
		if root := m.nodes[t.root]; root != nil {
			quiet := m.quiet
			m.quiet = true
			m.remove(root)
			m.quiet = quiet
		}
	}
	m.trees = kept
}
