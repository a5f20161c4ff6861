//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

func pause() int {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGCHLD)
	for s := range signals {
		if s != syscall.SIGCHLD {
			break
		}
		// One signal may stand for several children: those of a pod that shares
		// its PID namespace end up here.
		for {
			if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); pid <= 0 || err != nil {
				break
			}
		}
	}
	return 0
}

// sleep handles SIGTERM, since the kernel does not deliver it to a process 1
// without a handler.
func sleep(d time.Duration) int {
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM)
	ready()
	select {
	case <-term:
		return 128 + int(syscall.SIGTERM)
	case <-time.After(d):
		return 0
	}
}

func ignoreTerm(d time.Duration) int {
	signal.Ignore(syscall.SIGTERM)
	ready()
	time.Sleep(d)
	return 0
}

// ready tells that signals are handled from now on as the part says. Before that
// Go's own handler ends the program with code 2.
func ready() { fmt.Println("ready") }

// leaderExit ends the main thread and leaves it to another one to end the process.
// From then on the process is a zombie leader with live threads, like a C program
// whose main called pthread_exit.
func leaderExit(after time.Duration, code int) {
	if syscall.Gettid() != syscall.Getpid() {
		panic("not on the main thread")
	}
	go func() {
		time.Sleep(after)
		os.Exit(code)
	}()
	// Not RawSyscall: Go must know that this thread does not come back, or it
	// would wait for it at the next garbage collection.
	_, _, _ = syscall.Syscall(syscall.SYS_EXIT, 0, 0, 0)
}

// again is this program in another part.
func again(args ...string) *exec.Cmd {
	return exec.CommandContext(context.Background(), self, args...)
}

// startChildren returns when all n children are executing their part.
func startChildren(n int, d time.Duration) error {
	for range n {
		if err := again("sleep", d.String()).Start(); err != nil {
			return err
		}
	}
	return nil
}

func orphans(n int, d time.Duration) error {
	if err := again("tree", strconv.Itoa(n), d.String()).Run(); err != nil {
		return err
	}
	time.Sleep(d)
	return nil
}

func memhog(n int, d time.Duration) {
	memory := make([]byte, n)
	for i := 0; i < len(memory); i += os.Getpagesize() {
		memory[i] = 1
	}
	time.Sleep(d)
	runtime.KeepAlive(memory)
}

// tiny is the cheapest program to execute.
const tiny = "/tiny"

// forkstorm executes tiny rate times a second for d, in as many processes as there
// are processors: within one process Go starts children one at a time.
func forkstorm(rate int, d time.Duration) error {
	if os.Getenv(workerEnv) != "" {
		n, err := storm(rate, d)
		fmt.Println(n)
		return err
	}
	workers := runtime.NumCPU()
	var pending []func() (int, error)
	began := time.Now()
	for i := range workers {
		share := rate / workers
		if i < rate%workers {
			share++
		}
		if rate > 0 && share == 0 {
			continue
		}
		cmd := again("forkstorm", strconv.Itoa(share), d.String())
		cmd.Env = append(os.Environ(), workerEnv+"=1")
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			return err
		}
		if err := cmd.Start(); err != nil {
			return err
		}
		pending = append(pending, func() (n int, err error) {
			if _, err := fmt.Fscan(out, &n); err != nil {
				return 0, err
			}
			return n, cmd.Wait()
		})
	}
	total := 0
	for _, wait := range pending {
		n, err := wait()
		if err != nil {
			return err
		}
		total += n
	}
	seconds := time.Since(began).Seconds()
	fmt.Printf("execs=%d seconds=%.3f rate=%.0f\n", total, seconds, float64(total)/seconds)
	return nil
}

// workerEnv marks the processes among which forkstorm divides the work.
const workerEnv = "TESTIMAGE_FORKSTORM_WORKER"

func storm(rate int, d time.Duration) (n int, err error) {
	// A process of a fast storm executes tiny again and again.
	more := 100
	if rate > 0 {
		more = min(more, rate/100)
	}
	argv := []string{tiny, strconv.Itoa(more)}
	attr := &syscall.ProcAttr{}
	began := time.Now()
	for {
		elapsed := time.Since(began)
		if elapsed >= d {
			return n, nil
		}
		if rate > 0 {
			if ahead := time.Duration(n)*time.Second/time.Duration(rate) - elapsed; ahead > 0 {
				time.Sleep(min(ahead, d-elapsed))
				continue
			}
		}
		pid, err := syscall.ForkExec(tiny, argv, attr)
		if err != nil {
			return n, err
		}
		var status syscall.WaitStatus
		for {
			if _, err = syscall.Wait4(pid, &status, 0, nil); err != syscall.EINTR {
				break
			}
		}
		if err != nil {
			return n, err
		}
		if status != 0 {
			return n, fmt.Errorf("%s ended with wait status %#x", tiny, status)
		}
		n += 1 + more
	}
}
