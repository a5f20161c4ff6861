package cgroupfs

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// EventsFile is the file in which a v2 cgroup tells whether it is populated.
const EventsFile = "cgroup.events"

// Procs returns the processes directly in the cgroup at dir. IDs that are not
// visible in this process's PID namespace read as 0 and are left out.
func Procs(dir string) ([]int, error) {
	data, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if err != nil {
		return nil, gone(err)
	}
	var pids []int
	for s := bufio.NewScanner(bytes.NewReader(data)); s.Scan(); {
		pid, err := strconv.Atoi(strings.TrimSpace(s.Text()))
		if err != nil {
			return nil, fmt.Errorf("%s/cgroup.procs: %w", dir, err)
		}
		if pid > 0 {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// Populated reports whether a process lives in the v2 cgroup at dir or below it,
// by its cgroup.events. An error that is not [fs.ErrNotExist] may mean that the
// file is just being written, where dir only imitates a cgroup.
func Populated(dir string) (bool, error) {
	data, err := os.ReadFile(filepath.Join(dir, EventsFile))
	if err != nil {
		return false, gone(err)
	}
	for line := range bytes.Lines(data) {
		if value, ok := bytes.CutPrefix(bytes.TrimSpace(line), []byte("populated ")); ok && len(value) == 1 {
			return value[0] == '1', nil
		}
	}
	return false, fmt.Errorf("%s/%s does not say populated 0 or 1", dir, EventsFile)
}

// HasProcs reports whether a process is in the cgroup at dir or below it, in
// either version. Version 1 doesn't tell without a walk.
func HasProcs(dir string) (bool, error) {
	populated, err := Populated(dir)
	if !errors.Is(err, fs.ErrNotExist) {
		return populated, err
	}
	// PIDs of another PID namespace read as 0 and count all the same.
	data, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if err != nil {
		return false, gone(err)
	}
	if len(bytes.TrimSpace(data)) > 0 {
		return true, nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false, gone(err)
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		// A child that went meanwhile held no process.
		if has, err := HasProcs(filepath.Join(dir, e.Name())); err == nil && has {
			return true, nil
		}
	}
	return false, nil
}

// gone turns what the kernel says of a file in a removed cgroup that was still
// held open into what it says of one that can't be opened any more.
func gone(err error) error {
	if errors.Is(err, syscall.ENODEV) {
		return fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	}
	return err
}
