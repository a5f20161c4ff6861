package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/trigger"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/trigger/cgroupfs"
)

// flavour says how a tree of directories tells that a container's cgroup became
// populated or emptied.
type flavour uint8

const (
	// flavourPlain: files in a container's directory are written like any others,
	// and may be there only some time after it.
	flavourPlain flavour = iota
	// flavourV1: nothing tells.
	flavourV1
	// flavourV2: cgroup.events is modified, which the kernel reports for this very
	// file, and only to those who watch it.
	flavourV2
)

// tree is one directory that is watched with what is below it.
type tree struct {
	root    string
	prefix  string // root's path within its hierarchy
	guard   string // watched for the removal of root, of which a cgroup itself doesn't tell
	flavour flavour
	// fallback says to leave this tree once another one shows containers of the CRI.
	fallback bool
}

// trees says what to watch on this host.
func (s *Source) trees() ([]*tree, error) {
	layout, err := s.detect()
	if err != nil {
		return nil, err
	}
	if s.opts.Root != "" {
		t, err := givenTree(s.opts.Root, layout)
		if err != nil {
			return nil, err
		}
		return []*tree{t}, nil
	}
	hierarchies, err := layout.Hierarchies()
	if err != nil {
		return nil, err
	}
	var trees []*tree
	for i, h := range hierarchies {
		trees = append(trees, &tree{root: h.Mountpoint, flavour: flavourOf(h), fallback: i > 0})
	}
	return trees, nil
}

// givenTree is the tree for --cgroup-root.
func givenTree(root string, layout cgroupfs.Layout) (*tree, error) {
	// /sys/fs/cgroup/cpu is a link to cpu,cpuacct on many hosts.
	dir, err := filepath.EvalSymlinks(root)
	if err != nil {
		return nil, fmt.Errorf("cgroup root: %w", err)
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, fmt.Errorf("cgroup root: %w", err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return nil, fmt.Errorf("cgroup root: %w", err)
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("cgroup root %s is not a directory: name one that holds cgroups: %w", root, trigger.ErrUnsupported)
	}
	t := &tree{root: dir}
	if h, ok := layout.At(dir); ok {
		t.prefix, t.flavour = h.Prefix(dir), flavourOf(h)
		if t.prefix != "" {
			t.guard = filepath.Dir(dir)
		}
	} else if slices.ContainsFunc(layout.Mounts, func(h cgroupfs.Hierarchy) bool { return filepath.Dir(h.Mountpoint) == dir }) {
		// Containers that are there would look like directories without cgroup.events.
		return nil, fmt.Errorf("cgroup root %s is no cgroup hierarchy, though some are mounted in it: name one of these: %w", root, trigger.ErrUnsupported)
	}
	// A container named as root is a node to look into, not a container.
	if ref, _ := trigger.ParseCgroupPath(t.prefix); ref.ContainerID != "" {
		t.prefix = ""
	}
	return t, nil
}

func flavourOf(h cgroupfs.Hierarchy) flavour {
	if h.Version == 1 {
		return flavourV1
	}
	return flavourV2
}

// isGone reports whether err says that a directory or file went away, which any
// cgroup may do at any time.
func isGone(err error) bool { return errors.Is(err, fs.ErrNotExist) }
