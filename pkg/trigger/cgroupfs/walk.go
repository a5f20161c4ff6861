package cgroupfs

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/trigger"
)

// Entry is a pod's or container's cgroup.
type Entry struct {
	// Dir is its directory.
	Dir string
	// ID is the kernel's number of the cgroup.
	ID uint64
	// Ref says whose it is; never [trigger.CgroupRef.Nested].
	Ref trigger.CgroupRef
}

// Walk calls visit for the cgroup of every pod and container below root, parents
// first. prefix is root's path within its hierarchy (see [Hierarchy.Prefix]),
// which helps to tell whose the cgroups are.
//
// It doesn't look into the containers of pods: whatever runs in there is another
// runtime's. Cgroups that come and go meanwhile may be seen or not. It returns
// the first error of visit, or what kept it from reading root.
func Walk(root, prefix string, visit func(Entry) error) error {
	entries, err := os.ReadDir(root)
	if err != nil {
		return gone(err)
	}
	return walk(root, prefix, entries, visit)
}

func walk(parent, prefix string, entries []fs.DirEntry, visit func(Entry) error) error {
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		dir, rel := filepath.Join(parent, e.Name()), path.Join(prefix, e.Name())
		ref, ok := trigger.ParseCgroupPath(rel)
		if ok && !ref.Nested {
			info, err := e.Info()
			if err != nil {
				continue // gone
			}
			if err := visit(Entry{Dir: dir, ID: ID(info), Ref: ref}); err != nil {
				return err
			}
			if ref.Class == trigger.CgroupPodContainer {
				continue
			}
		}
		children, err := os.ReadDir(dir)
		if err != nil {
			continue // gone, or not for this user to see
		}
		if err := walk(dir, rel, children, visit); err != nil {
			return err
		}
	}
	return nil
}
