package testruntime

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// cgroupDirs returns the folders of the cgroup path, one in each hierarchy that has
// it.
func cgroupDirs(path string) []string {
	var dirs []string
	for _, m := range cgroupMounts() {
		dir := filepath.Join(m, path)
		if info, err := os.Stat(dir); err == nil && info.IsDir() {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// cgroupTree returns dir and all cgroups below it, children first.
func cgroupTree(dir string) []string {
	var found []string
	// Cgroups come and go meanwhile: what can't be read is gone.
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return fs.SkipDir
		}
		if d.IsDir() {
			found = append(found, path)
		}
		return nil
	})
	for i, j := 0, len(found)-1; i < j; i, j = i+1, j-1 {
		found[i], found[j] = found[j], found[i]
	}
	return found
}

// cgroupProcs returns the processes in the one cgroup with the folder dir.
func cgroupProcs(dir string) []int {
	data, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if err != nil {
		return nil
	}
	var pids []int
	for line := range strings.Lines(string(data)) {
		// 0 stands for a process of another PID namespace: not ours to kill.
		if pid, err := strconv.Atoi(strings.TrimSpace(line)); err == nil && pid > 0 {
			pids = append(pids, pid)
		}
	}
	return pids
}

// clearCgroup kills the processes of the cgroup path and all below it, then removes
// it from every hierarchy. It does one round and says what stands in the way: killed
// processes need a moment to leave.
func clearCgroup(path string) error {
	var errs []error
	for _, root := range cgroupDirs(path) {
		for _, dir := range cgroupTree(root) {
			pids := cgroupProcs(dir)
			for _, pid := range pids {
				if err := kill(pid); err != nil {
					errs = append(errs, err)
				}
			}
			if len(pids) > 0 {
				// A v1 freezer keeps a paused container's processes even from dying.
				_ = os.WriteFile(filepath.Join(dir, "freezer.state"), []byte("THAWED"), 0)
			}
			if err := removeCgroupDir(dir); err != nil {
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}

// removeCgroupDir removes one cgroup that has no children. One that is gone is fine.
func removeCgroupDir(dir string) error {
	err := syscall.Rmdir(dir)
	if err == nil || errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENODEV) {
		return nil
	}
	return fmt.Errorf("remove cgroup %s: %w", dir, err)
}

// hasChildCgroups says whether there is a cgroup below dir.
func hasChildCgroups(dir string) bool {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false
	}
	for _, e := range entries {
		if e.IsDir() {
			return true
		}
	}
	return false
}
