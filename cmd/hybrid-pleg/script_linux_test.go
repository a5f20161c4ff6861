package main

import (
	"os"
	"os/exec"
	"runtime"

	"golang.org/x/sys/unix"
)

// shrinkPipe makes a pipe hold no more than a page, so that it is soon full.
func shrinkPipe(w *os.File) error {
	_, err := unix.FcntlInt(w.Fd(), unix.F_SETPIPE_SZ, os.Getpagesize())
	return err
}

// startPlain starts a program that can't have the capabilities that eBPF takes,
// even as root: they are dropped from the bounding set of a thread that starts it
// and then ends.
func startPlain(cmd *exec.Cmd) error {
	if os.Geteuid() != 0 {
		return cmd.Start()
	}
	result := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked
		for _, c := range []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_BPF, unix.CAP_PERFMON} {
			// An old kernel, and a container, may lack one to drop.
			_ = unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0)
		}
		result <- cmd.Start()
	}()
	return <-result
}
