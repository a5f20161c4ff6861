//go:build !linux

package kerneltest

import "syscall"

// childAttr is of use on Linux only, as is the package.
func childAttr() *syscall.SysProcAttr { return nil }
