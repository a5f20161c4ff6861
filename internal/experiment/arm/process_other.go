//go:build !linux

package arm

import (
	"errors"
	"syscall"
	"time"
)

// childAttr keeps the terminal's Ctrl-C from a child.
func childAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

var errOnlyLinux = errors.New("costs are measured on Linux only")

// CPUTime fails.
func CPUTime(int) (time.Duration, error) { return 0, errOnlyLinux }

// PeakMemory fails.
func PeakMemory(int) (int64, error) { return 0, errOnlyLinux }

// ResetPeak does nothing.
func ResetPeak(int) {}

// ListenerPid knows nothing.
func ListenerPid(string) int { return 0 }

// Running reports false.
func Running(string) bool { return false }
