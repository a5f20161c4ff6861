//go:build unix

package testutil

import (
	"os/exec"
	"syscall"
)

// own gives a command's processes a group of their own, so that end reaches them all.
func own(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// end ends a command and all that it started.
func end(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
