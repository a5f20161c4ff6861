//go:build !linux

package testruntime

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
)

var errNotLinux = fmt.Errorf("containers need Linux, this is %s: %w", runtime.GOOS, errors.ErrUnsupported)

// Check says what keeps a runtime from being started on this host, as far as that
// can be told without trying.
func Check() error { return errNotLinux }

func tryLock(*os.File) (bool, error) { return false, errNotLinux }

func openNoFollow(string) (*os.File, error) { return nil, errNotLinux }

func ownedByUs(os.FileInfo) bool { return false }

func daemonAttr() *syscall.SysProcAttr { return nil }

func mountsBelow(string) ([]string, error) { return nil, errNotLinux }

func unmount(string) error { return errNotLinux }

func cgroupMounts() []string { return nil }

type process struct {
	pid     int
	command string
}

func daemonsOf(string) ([]process, error) { return nil, errNotLinux }

func kill(int) error { return errNotLinux }
