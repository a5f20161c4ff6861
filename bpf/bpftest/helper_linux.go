package bpftest

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// helperArg is the first argument of the test binary when it plays a container's process.
const helperArg = "bpftest-helper"

func isHelper() bool { return len(os.Args) > 1 && os.Args[1] == helperArg }

// The main goroutine starts on the leader thread, and "leader-exit" must be sent from there.
func init() {
	if isHelper() {
		runtime.LockOSThread()
	}
}

// Main runs the tests, or the process that a test wanted.
func Main(m *testing.M) int {
	if isHelper() {
		return helper()
	}
	return m.Run()
}

// helper reads commands from standard input, one a line, and answers each with "ok".
//
//	exec          execs itself anew, with a mount namespace of its own as a workload has
//	thread-exec   does so from another thread than the leader
//	run N         starts N processes one after the other, each with an exec of its own
//	spawn         leaves a child behind that lives until it is killed
//	leader-exit   ends the leader thread; the process goes on
//	move DIR      moves itself into the cgroup at DIR
//	quit          ends
func helper() int {
	if len(os.Args) > 2 {
		switch os.Args[2] {
		case "true":
			return 0
		case "sleep":
			time.Sleep(time.Minute) // outlives the test only if nobody kills it
			return 0
		}
	}
	fmt.Println("ok") // of the start, or of the exec
	leaderGone := make(chan struct{})
	for {
		line, err := readLine(os.Stdin)
		if err != nil {
			return 0
		}
		command, arg, _ := strings.Cut(line, " ")
		switch command {
		case "exec":
			err = reexec()
		case "thread-exec":
			done := make(chan error)
			go func() {
				runtime.LockOSThread()
				done <- reexec()
			}()
			err = <-done
		case "run":
			err = runMany(arg)
		case "spawn":
			err = child("sleep").Start()
		case "leader-exit":
			// The rest of this process is another goroutine.
			go func() {
				<-leaderGone
				fmt.Println("ok")
				for {
					if line, err := readLine(os.Stdin); err != nil || line == "quit" {
						os.Exit(0)
					}
				}
			}()
			if unix.Gettid() != os.Getpid() {
				return 3
			}
			close(leaderGone)
			// Syscall and not RawSyscall: the scheduler takes the processor back.
			_, _, _ = syscall.Syscall(syscall.SYS_EXIT, 0, 0, 0)
		case "move":
			err = Join(arg, os.Getpid())
		case "quit":
			return 0
		default:
			err = fmt.Errorf("unknown command %q", command)
		}
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println("ok")
	}
}

func reexec() error {
	// Of this thread, which is the one that execs.
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return err
	}
	return syscall.Exec("/proc/self/exe", []string{os.Args[0], helperArg}, os.Environ())
}

func child(what string) *exec.Cmd {
	return exec.CommandContext(context.Background(), "/proc/self/exe", helperArg, what)
}

func runMany(n string) error {
	var count int
	if _, err := fmt.Sscan(n, &count); err != nil {
		return err
	}
	for range count {
		// Not the test binary: its start costs a hundred times as much.
		if err := exec.CommandContext(context.Background(), "/bin/true").Run(); err != nil {
			return err
		}
	}
	return nil
}

// readLine reads no more than the line: what follows is for the program after an exec.
func readLine(r io.Reader) (string, error) {
	var line []byte
	for b := make([]byte, 1); ; {
		if _, err := io.ReadFull(r, b); err != nil {
			return "", err
		}
		if b[0] == '\n' {
			return string(line), nil
		}
		line = append(line, b[0])
	}
}
