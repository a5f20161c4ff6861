package arm

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/internal/experiment/clock"
)

// Process is a program that has been started. It does not outlive this one, nor does
// the terminal's Ctrl-C reach it: who started it ends it.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended and all it said was read

	mu      sync.Mutex
	log     []string // the last lines of its standard error
	waiting []*line
	ending  string

	endedAt atomic.Int64 // monotonic; 0 while it runs
}

// line is a line of a log that somebody waits for.
type line struct {
	re    *regexp.Regexp
	found chan []string // gets the submatches; closed when there will be none
}

// keptLines is how much of an arm's log is kept to explain its end.
const keptLines = 20

// Spawn starts a program. read is given its standard output, and must read it to its
// end.
func Spawn(command []string, read func(io.Reader)) (*Process, error) {
	cmd := exec.Command(command[0], command[1:]...) //nolint:noctx // Stop ends it, and lets it clear up
	cmd.SysProcAttr = childAttr()
	p := &Process{cmd: cmd, done: make(chan struct{})}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	logs, err := cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	started := make(chan error)
	go func() {
		// The kernel sends the parent-death signal when the thread ends that started the
		// child, so that thread must stay.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		var reading sync.WaitGroup
		reading.Go(func() { read(out); _, _ = io.Copy(io.Discard, out) })
		reading.Go(func() { p.readLog(logs) })
		reading.Wait() // before Wait, which closes the pipes
		err = cmd.Wait()
		p.end(err)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

func (p *Process) end(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.endedAt.Store(clock.Now())
	p.ending = "it ended by itself"
	if err != nil {
		p.ending = err.Error()
	}
	for _, w := range p.waiting {
		close(w.found)
	}
	p.waiting = nil
	close(p.done)
}

func (p *Process) readLog(r io.Reader) {
	lines := bufio.NewReader(r)
	for {
		text, err := lines.ReadString('\n')
		if text = strings.TrimRight(text, "\r\n"); text != "" {
			p.logged(text)
		}
		if err != nil {
			return
		}
	}
}

func (p *Process) logged(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.log = append(p.log, text); len(p.log) > keptLines {
		p.log = p.log[1:]
	}
	p.waiting = slices.DeleteFunc(p.waiting, func(w *line) bool {
		m := w.re.FindStringSubmatch(text)
		if m != nil {
			w.found <- m
		}
		return m != nil
	})
}

// logLine delivers the submatches of the first line of the log that matches; the
// channel is closed when the process ends without one. Lines from before count.
func (p *Process) logLine(re *regexp.Regexp) <-chan []string {
	w := &line{re, make(chan []string, 1)}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, text := range p.log {
		if m := re.FindStringSubmatch(text); m != nil {
			w.found <- m
			return w.found
		}
	}
	if p.ended() {
		close(w.found)
		return w.found
	}
	p.waiting = append(p.waiting, w)
	return w.found
}

// Pid is the process's ID.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

func (p *Process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Ending says how the process ended, with the end of its log.
func (p *Process) Ending() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.log) == 0 {
		return p.ending
	}
	return p.ending + "; it said last: " + strings.Join(p.log[max(0, len(p.log)-3):], " | ")
}

// endTime is how long a process may take to end when asked to.
const endTime = 10 * time.Second

// Stop asks the process to end, makes it when it takes too long, and waits for its
// end. Stopping one that has ended does nothing.
func (p *Process) Stop() {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		_ = p.cmd.Process.Kill()
	}
	timer := time.NewTimer(endTime)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}
