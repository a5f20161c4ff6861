package cgroup

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"

	"github.com/fsnotify/fsnotify"
)

// watcher is the part of [fsnotify.Watcher] that the source uses.
type watcher interface {
	Add(path string) error
	Remove(path string) error
	Events() <-chan fsnotify.Event
	Errors() <-chan error
	Close() error
}

type fsWatcher struct{ *fsnotify.Watcher }

func (w fsWatcher) Events() <-chan fsnotify.Event { return w.Watcher.Events }
func (w fsWatcher) Errors() <-chan error          { return w.Watcher.Errors }

// eventBuffer lets fsnotify empty the kernel's queue while a scan is under way.
const eventBuffer = 4096

func newWatcher() (watcher, error) {
	w, err := fsnotify.NewBufferedWatcher(eventBuffer)
	if err != nil {
		return nil, err
	}
	return fsWatcher{w}, nil
}

// ErrLimit marks an error of [Source.Run] that a limit of the host caused. Its
// text says which one to raise.
var ErrLimit = errors.New("limit reached")

// limitError wraps an error of the watcher. Where it comes of a limit, it says
// which, and how it stands.
func limitError(err error, doing string) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.ENOSPC):
		return fmt.Errorf("%s: %w: raise the sysctl fs.inotify.max_user_watches%s: %w",
			doing, ErrLimit, currently("max_user_watches"), err)
	case errors.Is(err, syscall.EMFILE):
		return fmt.Errorf("%s: %w: raise the sysctl fs.inotify.max_user_instances%s, or this process's limit of open files: %w",
			doing, ErrLimit, currently("max_user_instances"), err)
	default:
		return fmt.Errorf("%s: %w", doing, err)
	}
}

func currently(limit string) string {
	data, err := os.ReadFile("/proc/sys/fs/inotify/" + limit)
	if err != nil {
		return ""
	}
	return " (now " + strings.TrimSpace(string(data)) + ")"
}
