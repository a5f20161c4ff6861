package bpftest

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// Process is a process that waits for commands.
type Process struct {
	PID    int
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout *bufio.Reader
	ended  bool
}

// Init starts a process outside of any container and then moves it into the cgroup, as
// runc does with `runc init`; its command "exec" then begins the workload.
func (c *Container) Init(t testing.TB) *Process {
	t.Helper()
	p := start(t, c.tree, &syscall.SysProcAttr{})
	if err := Join(c.Dir, p.PID); err != nil {
		t.Fatal(err)
	}
	return p
}

// Start starts a workload: a process that execs in the cgroup, with a mount namespace of its
// own, and whose parent, the test, is outside.
func (c *Container) Start(t testing.TB) *Process {
	t.Helper()
	if c.tree.hierarchy == V1 {
		p := c.Init(t) // v1 has no clone into a cgroup
		p.Do(t, "exec")
		return p
	}
	return c.startInside(t, syscall.CLONE_NEWNS)
}

// Stage starts a helper of the runtime, as the first stage of `runc init`: it execs in the
// cgroup, but still has the mounts of its parent. It needs v2.
func (c *Container) Stage(t testing.TB) *Process {
	t.Helper()
	return c.startInside(t, 0)
}

func (c *Container) startInside(t testing.TB, flags uintptr) *Process {
	t.Helper()
	dir, err := os.Open(c.Dir)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	return start(t, c.tree, &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(dir.Fd()), Cloneflags: flags})
}

func start(t testing.TB, tree *Tree, attr *syscall.SysProcAttr) *Process {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	attr.Pdeathsig = syscall.SIGKILL
	p := &Process{cmd: exec.CommandContext(context.Background(), exe, helperArg)}
	p.cmd.SysProcAttr = attr
	// The race detector makes a process sleep for a second before it ends.
	p.cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0")
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.stdout = bufio.NewReader(out)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.PID = p.cmd.Process.Pid
	tree.processes = append(tree.processes, p)
	p.expectOK(t, "start")
	return p
}

// Do has the process do something, and returns when it is done.
func (p *Process) Do(t testing.TB, command string) {
	t.Helper()
	if _, err := io.WriteString(p.stdin, command+"\n"); err != nil {
		t.Fatalf("%s: %v", command, err)
	}
	p.expectOK(t, command)
}

func (p *Process) expectOK(t testing.TB, command string) {
	t.Helper()
	line, err := p.stdout.ReadString('\n')
	if err != nil || strings.TrimSpace(line) != "ok" {
		t.Fatalf("%s: answer %q, %v", command, line, err)
	}
}

// Quit ends the process and waits for it.
func (p *Process) Quit(t testing.TB) {
	t.Helper()
	if _, err := io.WriteString(p.stdin, "quit\n"); err != nil {
		t.Fatal(err)
	}
	p.reap()
}

func (p *Process) kill() {
	if !p.ended {
		_ = p.cmd.Process.Kill()
		p.reap()
	}
}

func (p *Process) reap() {
	p.ended = true
	_ = p.stdin.Close()
	_ = p.cmd.Wait() // how it ended does not matter
}

// Join moves a process into the cgroup at dir.
func Join(dir string, pid int) error {
	return os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0o600)
}
