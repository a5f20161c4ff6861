package kerneltest

import "syscall"

// childAttr has a child die with the thread that starts it, so that no machine outlives a killed
// kerneltest, and keeps the terminal's Ctrl-C from it: it is ended in its owner's time.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
