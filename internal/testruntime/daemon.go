package testruntime

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

// daemon is a running containerd.
type daemon struct {
	process *os.Process
	// done is closed when the process has ended; ending is how, after that.
	done   chan struct{}
	ending string
}

// startDaemon starts the containerd in binDir. It dies with this process.
func startDaemon(l layout, binDir string, log io.Writer) (*daemon, error) {
	logFile, err := os.OpenFile(l.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(filepath.Join(binDir, "containerd"), "--config", l.config()) //nolint:noctx // it outlives its start
	// containerd looks for the shim, and the shim for runc, on the path.
	cmd.Env = append(os.Environ(), "PATH="+binDir+":/usr/sbin:/usr/bin:/sbin:/bin", "TMPDIR="+l.dir)
	cmd.SysProcAttr = daemonAttr()
	cmd.Stderr = logFile
	if log != nil {
		cmd.Stderr = io.MultiWriter(logFile, log)
		cmd.WaitDelay = time.Second
	}

	d := &daemon{done: make(chan struct{})}
	started := make(chan error)
	go func() {
		// The kernel sends the parent-death signal when the thread ends that
		// started the child, so that thread must not be given back.
		runtime.LockOSThread()
		defer logFile.Close()
		err := cmd.Start()
		if err == nil {
			d.process = cmd.Process
		}
		started <- err
		if err == nil {
			_ = cmd.Wait() // an error for each ending but code 0; the state says it all
			d.ending = cmd.ProcessState.String()
			close(d.done)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start containerd: %w", err)
	}
	return d, nil
}

// stop ends the daemon with SIGTERM, or with SIGKILL when it takes too long. Its
// containers live on.
func (d *daemon) stop() {
	_ = d.process.Signal(syscall.SIGTERM)
	select {
	case <-d.done:
	case <-time.After(10 * time.Second):
		d.kill()
	}
}

// kill ends the daemon at once. Its containers live on.
func (d *daemon) kill() {
	_ = d.process.Kill()
	<-d.done
}

func (d *daemon) ended() bool {
	select {
	case <-d.done:
		return true
	default:
		return false
	}
}
