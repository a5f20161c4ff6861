//go:build linux

package e2e

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/internal/testruntime"
	"golang.org/x/sys/unix"
)

// checkpoints tells when a containerd shows a container as running, and as exited.
//
// Whenever containerd changes a container's status it writes it to a file, renames that
// to its place and then shows it; until then, who asks for the status waits
// (internal/cri/store/container/status.go, UpdateSync, in containerd 2.4). So the moment
// of the rename is that of the change, to the few hundredths of a millisecond that this
// process takes to wake up.
//
// It takes the renames and nothing else from the kernel, and does no more than note the
// time: work done here, at that moment, would delay what is measured.
type checkpoints struct {
	dir  string
	file *os.File // the inotify instance
	done chan struct{}

	mu    sync.Mutex
	names map[int32]string       // container IDs by watch
	at    map[string][]time.Time // the renames of each
	more  chan struct{}          // closed and renewed with each
}

func watchCheckpoints(b *testing.B, rt *testruntime.Runtime) *checkpoints {
	b.Helper()
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		b.Fatal(err)
	}
	c := &checkpoints{
		dir:   filepath.Join(rt.Dir(), "root", "io.containerd.grpc.v1.cri", "containers"),
		file:  os.NewFile(uintptr(fd), "inotify"),
		done:  make(chan struct{}),
		names: make(map[int32]string), at: make(map[string][]time.Time), more: make(chan struct{}),
	}
	go c.follow()
	b.Cleanup(func() {
		c.file.Close()
		<-c.done
	})
	return c
}

// of watches a container, which must have been created and not yet started.
func (c *checkpoints) of(b *testing.B, id string) {
	b.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	raw, err := c.file.SyscallConn()
	if err != nil {
		b.Fatal(err)
	}
	var watch int
	if cerr := raw.Control(func(fd uintptr) {
		watch, err = unix.InotifyAddWatch(int(fd), filepath.Join(c.dir, id), unix.IN_MOVED_TO)
	}); cerr != nil || err != nil {
		b.Fatalf("watch containerd's checkpoints of %s: %v, %v", id, cerr, err)
	}
	c.names[int32(watch)] = id
}

func (c *checkpoints) follow() {
	defer close(c.done)
	buffer := make([]byte, 64<<10)
	for {
		n, err := c.file.Read(buffer)
		if err != nil {
			return
		}
		now := time.Now()
		c.mu.Lock()
		// struct inotify_event: watch, mask, cookie, length of the name, name.
		for b := buffer[:n]; len(b) >= unix.SizeofInotifyEvent; {
			watch := int32(binary.NativeEndian.Uint32(b))
			length := int(binary.NativeEndian.Uint32(b[12:]))
			name := strings.TrimRight(string(b[unix.SizeofInotifyEvent:][:length]), "\x00")
			b = b[unix.SizeofInotifyEvent+length:]
			if id := c.names[watch]; id != "" && name == "status" {
				c.at[id] = append(c.at[id], now)
			}
		}
		close(c.more)
		c.more = make(chan struct{})
		c.mu.Unlock()
	}
}

// await waits until a container has been shown as exited. It must have started and ended
// by then, once.
func (c *checkpoints) await(b *testing.B, id string) (start, exit time.Time) {
	b.Helper()
	timeout := time.After(patience)
	for {
		c.mu.Lock()
		at, more := slices.Clone(c.at[id]), c.more
		c.mu.Unlock()
		switch {
		case len(at) == 2:
			return at[0], at[1]
		case len(at) > 2:
			b.Fatalf("containerd wrote %d checkpoints of %s, where one for its start and one for its end were expected", len(at), id)
		}
		select {
		case <-more:
		case <-timeout:
			b.Fatalf("containerd wrote %d checkpoints of %s, where one for its start and one for its end were expected", len(at), id)
		}
	}
}
