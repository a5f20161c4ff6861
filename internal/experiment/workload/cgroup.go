package workload

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/trigger/cgroupfs"
)

// busyTime is how long a cgroup may stay busy after its last process has ended.
const busyTime = 5 * time.Second

// RemoveCgroup removes a cgroup with all empty ones below it from each hierarchy that
// is mounted. One that is not there is no error.
func RemoveCgroup(path string) error {
	layout, err := cgroupfs.Detect()
	if err != nil {
		return err
	}
	deadline := time.Now().Add(busyTime)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	var errs []error
	for _, h := range layout.Mounts {
		dir := filepath.Join(h.Mountpoint, path)
		for {
			err := removeTree(dir)
			// Busy: the last process is leaving.
			if errors.Is(err, syscall.EBUSY) && time.Now().Before(deadline) {
				<-tick.C
				continue
			}
			errs = append(errs, err)
			break
		}
	}
	return errors.Join(errs...)
}

// removeTree removes directories from the leaves on; the files in a cgroup's go with
// it.
func removeTree(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := removeTree(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	// Not os.Remove, which tries unlink first and tells of that.
	if err := syscall.Rmdir(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return &os.PathError{Op: "rmdir", Path: dir, Err: err}
	}
	return nil
}
