package view

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	"golang.org/x/sys/unix"
)

// openTerminal returns both ends of a pseudo terminal.
func openTerminal(t *testing.T, columns uint16) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("there are no pseudo terminals here: %v", err)
	}
	t.Cleanup(func() { master.Close() })
	fd := int(master.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("there are no pseudo terminals here: %v", err)
	}
	t.Cleanup(func() { slave.Close() })
	setColumns(t, slave, columns)
	return master, slave
}

func setColumns(t *testing.T, f *os.File, columns uint16) {
	t.Helper()
	if err := unix.IoctlSetWinsize(int(f.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: columns}); err != nil {
		t.Fatal(err)
	}
}

// seen is what a person sees, and all that was written.
type seen struct {
	mu   sync.Mutex
	term terminal
	raw  strings.Builder
}

func look(master *os.File) *seen {
	s := &seen{}
	go func() {
		buf := make([]byte, 4096)
		for {
			n, err := master.Read(buf)
			s.mu.Lock()
			s.raw.Write(buf[:n])
			// From the beginning, since a read may end anywhere.
			s.term = terminal{}
			_, _ = s.term.Write([]byte(strings.ReplaceAll(s.raw.String(), "\r\n", "\n")))
			s.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	return s
}

func (s *seen) screen() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.term.String()
}

// TestTerminal has both commands show the status line on a terminal, whose window
// changes its size, and leave nothing but lines at the end.
func TestTerminal(t *testing.T) {
	path, b := twoPods(t)
	for name, run := range map[string]func(context.Context, Options) error{
		"watch": func(ctx context.Context, o Options) error { return Watch(ctx, watchOptions(o)) },
		"pods":  func(ctx context.Context, o Options) error { return Pods(ctx, PodsOptions{Options: o, Follow: true}) },
	} {
		master, slave := openTerminal(t, 200)
		opts, _ := options(t, path, "auto")
		opts.Stdout = slave
		s := look(master)
		end := begin(t, func(ctx context.Context) error { return run(ctx, opts) })
		until(t, name+" shows the status", func() bool { return strings.Contains(s.screen(), "● connected for") })
		id := name + "-1"
		b.Tell(event.ContainerStarted, "p1", id)
		until(t, name+" shows the event", func() bool { return strings.Contains(s.screen(), "  1 events") })
		setColumns(t, slave, 60)
		b.Tell(event.ContainerDied, "p1", id)
		until(t, name+" shows the next", func() bool { return strings.Contains(s.screen(), "  2 events") })
		if err := end(); err != nil {
			t.Errorf("%s ended with %v", name, err)
		}
		until(t, name+" takes the status away", func() bool { return strings.HasSuffix(s.screen(), "\n") })
		if screen := s.screen(); strings.Contains(screen, "connected") || strings.Count(screen, "\n") < 2 {
			t.Errorf("%s leaves\n%s", name, screen)
		}
		s.mu.Lock()
		if !strings.Contains(s.raw.String(), "\x1b[32m") {
			t.Errorf("%s has no colours: %q", name, s.raw.String())
		}
		s.mu.Unlock()
		if errs := errFile(t, opts); errs != "" {
			t.Errorf("%s logs %s", name, errs)
		}
	}
}
