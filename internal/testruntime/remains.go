package testruntime

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// dirPrefix begins the name of every private directory.
const dirPrefix = "hpleg-"

// owner is what the owner file of a private directory says: enough for another
// process to remove all that belongs to the runtime. The file is locked by the
// process that owns the runtime for as long as that lives.
type owner struct {
	Pid        int    `json:"pid"` // only for people
	CgroupRoot string `json:"cgroupRoot"`
}

// claim writes dir's owner file and locks it. The file appears under its name only
// when it is complete and locked, so that nobody takes a new directory for one whose
// owner is dead.
func claim(l layout, o owner) (*os.File, error) {
	data, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(l.owner()+".new", os.O_CREATE|os.O_RDWR|os.O_EXCL, 0o644)
	if err != nil {
		return nil, err
	}
	if _, err := f.Write(data); err != nil {
		f.Close()
		return nil, err
	}
	// Nobody else knows the name, so the lock is free.
	if _, err := tryLock(f); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	if err := os.Rename(l.owner()+".new", l.owner()); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// openOwner opens the owner file of a private directory. It returns nil where there is none:
// the directory isn't one of ours, or is just being made or removed.
func openOwner(l layout) (*os.File, error) {
	if info, err := os.Lstat(l.dir); err != nil || !info.IsDir() || info.Mode().Perm() != 0o700 || !ownedByUs(info) {
		return nil, ignoreNotExist(err)
	}
	f, err := openNoFollow(l.owner())
	if err != nil {
		return nil, ignoreNotExist(err)
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() || !ownedByUs(info) {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func ignoreNotExist(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// Sweep removes what runtimes left in parent (empty: the folder for temporary files)
// whose owners did not live to close them. Start calls it. What another user put there
// is let alone, because anybody may write to that folder. A runtime with an
// [Options.CgroupRoot] is not removed but told of in the error: by now that cgroup may be
// someone else's, such as the kubelet's /kubepods.
func Sweep(ctx context.Context, parent string) error {
	if parent == "" {
		parent = os.TempDir()
	}
	dirs, err := filepath.Glob(filepath.Join(parent, dirPrefix+"*"))
	if err != nil {
		return err
	}
	var errs []error
	for _, dir := range dirs {
		if err := sweepDir(ctx, layout{dir}); err != nil {
			errs = append(errs, fmt.Errorf("sweep %s: %w", dir, err))
		}
	}
	return errors.Join(errs...)
}

func sweepDir(ctx context.Context, l layout) error {
	f, err := openOwner(l)
	if err != nil || f == nil {
		return err
	}
	defer f.Close()
	if ok, err := tryLock(f); err != nil || !ok {
		return err
	}
	var o owner
	if err := json.NewDecoder(f).Decode(&o); err != nil {
		return fmt.Errorf("read the owner file: %w", err)
	}
	// Everything in that cgroup gets killed: it must be one that only this runtime can have made.
	if o.CgroupRoot != ownCgroup(l.dir) {
		return fmt.Errorf("the owner file names the cgroup %q, which need not be the runtime's any more: "+
			"end what of it still runs there, and remove the cgroup and %s", o.CgroupRoot, l.dir)
	}
	return removeRemains(ctx, l, o.CgroupRoot)
}

// ownCgroup is the cgroup of the runtime in dir, unless the options name another.
func ownCgroup(dir string) string { return "/" + filepath.Base(dir) }

// removeRemains kills and removes all that belongs to a runtime: daemons, containers,
// cgroups, mounts, files. It needs no help of containerd, so it works in whatever
// state that is.
func removeRemains(ctx context.Context, l layout, cgroupRoot string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	err := poll(ctx, 20*time.Millisecond, func() error {
		// Daemons first and again, since a shim may just be starting runc and runc
		// a container.
		daemons, err := daemonsOf(l.dir)
		if err != nil {
			return err
		}
		for _, p := range daemons {
			if err := kill(p.pid); err != nil {
				return err
			}
		}
		if err := clearCgroup(cgroupRoot); err != nil {
			return err
		}
		if len(daemons) > 0 {
			return fmt.Errorf("%d daemons were still running", len(daemons))
		}
		return nil
	})
	if err != nil {
		return err
	}
	points, err := mountsBelow(l.dir)
	if err != nil {
		return err
	}
	for _, point := range points {
		if err := unmount(point); err != nil {
			return err
		}
	}
	// A mount that is still there would have its content removed instead.
	if points, err = mountsBelow(l.dir); err != nil {
		return err
	}
	if len(points) > 0 {
		return fmt.Errorf("still mounted: %s", strings.Join(points, ", "))
	}
	return os.RemoveAll(l.dir)
}

// remains lists what there is of a runtime.
func remains(l layout, cgroupRoot string) []string {
	var found []string
	daemons, err := daemonsOf(l.dir)
	if err != nil {
		found = append(found, fmt.Sprintf("unknown processes: %v", err))
	}
	for _, p := range daemons {
		found = append(found, fmt.Sprintf("process %d: %s", p.pid, p.command))
	}
	for _, root := range cgroupDirs(cgroupRoot) {
		for _, dir := range cgroupTree(root) {
			found = append(found, "cgroup "+dir)
			for _, pid := range cgroupProcs(dir) {
				found = append(found, fmt.Sprintf("process %d in %s", pid, dir))
			}
		}
	}
	points, err := mountsBelow(l.dir)
	if err != nil {
		found = append(found, fmt.Sprintf("unknown mounts: %v", err))
	}
	for _, point := range points {
		found = append(found, "mount "+point)
	}
	if _, err := os.Lstat(l.dir); err == nil {
		found = append(found, "directory "+l.dir)
	}
	return found
}
