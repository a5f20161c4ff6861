package state

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/internal/testutil"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/merge"
)

// TestRestart ends and starts a log again and again: nothing is lost, tokens of every
// epoch resume, and the directory holds one file.
func TestRestart(t *testing.T) {
	dir := t.TempDir()
	n := newNode(3)
	var ids []string // of all events
	var tokens []merge.Token
	var pods []event.PodStatus
	for start := range 6 {
		k := open(t, Options{Dir: dir})
		l := logOf(t, k, merge.Options{OnEvent: func(e *event.Event) { ids = append(ids, e.ID) }})
		if got := l.Snapshot().Pods; start > 0 && !reflect.DeepEqual(got, pods) {
			t.Fatalf("start %d: the snapshot is\n%+v, it was\n%+v", start, got, pods)
		}
		tokens = append(tokens, l.Token())
		stop := run(t, k, l)
		publish(l, n, 100)
		tokens = append(tokens, l.Token())
		pods = l.Snapshot().Pods
		for _, tok := range tokens {
			w, err := l.Watch(merge.WatchOptions{Since: tok})
			check(t, err)
			var got []string
			for item, err := range w.All(t.Context()) {
				check(t, err)
				if item.Kind == merge.ItemSynced {
					break
				}
				if item.Kind != merge.ItemEvent {
					t.Fatalf("start %d: token %s: %s", start, tok, item.Kind)
				}
				got = append(got, item.Event.ID)
			}
			w.Close()
			if want := ids[tok.Sequence:]; strings.Join(got, " ") != strings.Join(want, " ") {
				t.Fatalf("start %d: token %s gets %d events, want %d", start, tok, len(got), len(want))
			}
		}
		check(t, stop())
	}
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	if want := []string{filepath.Join(dir, lockName), filepath.Join(dir, fileName)}; err != nil || !reflect.DeepEqual(names, want) {
		t.Errorf("the directory holds %v: %v", names, err)
	}
	if info, err := os.Stat(filepath.Join(dir, fileName)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file is %v: %v", info.Mode(), err)
	}
}

// killedVariable names the directory that TestKill's child is to write to until it
// is killed.
const killedVariable = "HYBRID_PLEG_STATE_TEST_DIR"

// TestWritesUntilKilled is the child of TestKill.
func TestWritesUntilKilled(t *testing.T) {
	dir := os.Getenv(killedVariable)
	if dir == "" {
		t.Skip("it is run by TestKill")
	}
	k := open(t, Options{Dir: dir})
	l := logOf(t, k, merge.Options{JournalEvents: 300})
	go func() { _ = k.Run(context.Background(), l) }()
	for n := newNode(uint64(os.Getpid())); ; {
		publish(l, n, 1)
		// What is told here may be lost; what follows must resume or say so.
		fmt.Println("at", l.Token())
	}
}

// TestKill kills a process that writes, at any moment, again and again: what it
// leaves is always good, and goes on from what was there before.
func TestKill(t *testing.T) {
	dir := t.TempDir()
	var last uint64
	for round := range 8 {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestWritesUntilKilled$")
		cmd.Env = append(os.Environ(), killedVariable+"="+dir)
		out, err := cmd.StdoutPipe()
		check(t, err)
		check(t, cmd.Start())
		// Some time into it, which is another each round.
		buf := make([]byte, 1<<10)
		for read := 0; read < 4<<10+round*5<<10; {
			n, err := out.Read(buf)
			check(t, err)
			read += n
		}
		check(t, cmd.Process.Kill())
		_ = cmd.Wait()

		log, lines := logger()
		k := open(t, Options{Dir: dir, Log: log})
		if lines.count("moved aside") != 0 {
			t.Fatalf("round %d:\n%s", round, lines.buf.String())
		}
		l := logOf(t, k, merge.Options{})
		if now := l.Token().Sequence; now < last {
			t.Fatalf("round %d: the log has gone back from %d to %d", round, last, now)
		} else {
			last = now
		}
		check(t, k.Close())
	}
	if last == 0 {
		t.Error("nothing was ever kept")
	}
}

func TestOneProcessADirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	k := open(t, Options{Dir: dir})
	_, err := Open(Options{Dir: dir})
	if !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), fmt.Sprint(os.Getpid())) {
		t.Errorf("the second gets %v", err)
	}
	stop := run(t, k, logOf(t, k, merge.Options{}))
	until(t, "it is written", func() bool { return k.Size() > 0 })
	if _, err := Open(Options{Dir: dir}); !errors.Is(err, ErrInUse) {
		t.Errorf("while the first runs, the second gets %v", err)
	}
	check(t, stop())
	check(t, open(t, Options{Dir: dir}).Close())
}

func TestOpenRefuses(t *testing.T) {
	notDir := filepath.Join(t.TempDir(), "file")
	check(t, os.WriteFile(notDir, nil, 0o600))
	odd := t.TempDir()
	check(t, os.Mkdir(filepath.Join(odd, fileName), 0o700))
	for name, o := range map[string]Options{
		"no directory":   {},
		"a file":         {Dir: notDir},
		"below a file":   {Dir: filepath.Join(notDir, "x")},
		"not ours":       {Dir: odd},
		"negative age":   {Dir: t.TempDir(), JournalAge: -1},
		"negative bytes": {Dir: t.TempDir(), JournalBytes: -1},
	} {
		if _, err := Open(o); err == nil {
			t.Errorf("%s: it opens", name)
		}
	}
}

// TestNoPermission: a directory or a file that this user may not use is an error
// that names it, and stays as it is.
func TestNoPermission(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may use any directory")
	}
	dir := t.TempDir()
	check(t, os.WriteFile(filepath.Join(dir, fileName), nil, 0))
	if _, err := Open(Options{Dir: dir}); !errors.Is(err, os.ErrPermission) || !strings.Contains(err.Error(), dir) {
		t.Errorf("a file that can't be read: %v", err)
	}
	dir = t.TempDir()
	check(t, os.Chmod(dir, 0o500))
	t.Cleanup(func() { check(t, os.Chmod(dir, 0o700)) })
	if _, err := Open(Options{Dir: dir}); !errors.Is(err, os.ErrPermission) || !strings.Contains(err.Error(), dir) {
		t.Errorf("a directory that can't be written: %v", err)
	}
}

// TestWriteThatFails: it goes on in memory, says so once, tries again ever more
// seldom, and has written all when it can again.
func TestWriteThatFails(t *testing.T) {
	dir := t.TempDir()
	log, lines := logger()
	var good, bad atomic.Int64
	k := open(t, Options{Dir: dir, Log: log, OnWrite: func(_ time.Duration, err error) {
		if err != nil {
			bad.Add(1)
		} else {
			good.Add(1)
		}
	}})
	f := &failing{storage: k.file}
	k.file = f
	var want string
	synctest.Test(t, func(t *testing.T) {
		l := logOf(t, k, merge.Options{})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- k.Run(ctx, l) }()
		n := newNode(1)
		publish(l, n, 10)
		synctest.Wait()
		if k.Problem() != "" {
			t.Error(k.Problem())
		}
		f.set(fmt.Errorf("write: %w", syscall.ENOSPC))
		publish(l, n, 10)
		synctest.Wait()
		if p := k.Problem(); !strings.Contains(p, dir) || !strings.Contains(p, "no space left") || !strings.Contains(p, "free space") {
			t.Errorf("the problem is %q", p)
		}
		before, _ := f.counts()
		time.Sleep(10 * time.Minute) // in the bubble, where it takes none
		publish(l, n, 10)
		synctest.Wait()
		// 1 s, 2 s, … 32 s, then each minute.
		if after, _ := f.counts(); after-before < 10 || after-before > 20 {
			t.Errorf("it was tried %d times in ten minutes", after-before)
		}
		if lines.count("level=ERROR") != 1 {
			t.Errorf("logged\n%s", lines.buf.String())
		}
		f.set(nil)
		time.Sleep(retryLast)
		synctest.Wait()
		if k.Problem() != "" || lines.count("kept again") != 1 {
			t.Errorf("the problem is %q, logged\n%s", k.Problem(), lines.buf.String())
		}
		publish(l, n, 10)
		synctest.Wait()
		_, appends := f.counts()
		publish(l, n, 10)
		synctest.Wait()
		if _, after := f.counts(); after == appends {
			t.Error("everything is written anew each time")
		}
		publish(l, n, 10) // left for the end
		want = podsOf(t, l)
		cancel()
		check(t, <-ended)
	})
	if good.Load() < 4 || bad.Load() < 10 {
		t.Errorf("%d writes are said to be good, %d to have failed", good.Load(), bad.Load())
	}
	k = open(t, Options{Dir: dir})
	l := logOf(t, k, merge.Options{})
	if got := podsOf(t, l); got != want {
		t.Errorf("kept is\n%s, want\n%s", got, want)
	}
	check(t, k.Close())
}

// TestLastWriteFails: the end says so.
func TestLastWriteFails(t *testing.T) {
	k := open(t, Options{Dir: t.TempDir()})
	f := &failing{storage: k.file, err: syscall.EIO}
	k.file = f
	stop := run(t, k, logOf(t, k, merge.Options{}))
	if err := stop(); !errors.Is(err, syscall.EIO) {
		t.Errorf("it ends with %v", err)
	}
}

// hanging is a disk that does not answer.
type hanging struct {
	storage
	answer chan struct{}
}

func (h *hanging) rewrite(s *merge.State) error {
	<-h.answer
	return h.storage.rewrite(s)
}

func TestDiskThatHangs(t *testing.T) {
	k := open(t, Options{Dir: t.TempDir(), CloseTimeout: time.Millisecond})
	h := &hanging{k.file, make(chan struct{})}
	k.file = h
	stop := run(t, k, logOf(t, k, merge.Options{}))
	if err := stop(); err == nil || !strings.Contains(err.Error(), k.opts.Dir) {
		t.Errorf("it ends with %v", err)
	}
	close(h.answer)
	until(t, "the directory is free", func() bool {
		again, err := Open(Options{Dir: k.opts.Dir})
		return err == nil && again.Close() == nil
	})
}

func TestLogIsKeptOnce(t *testing.T) {
	k, other := open(t, Options{Dir: t.TempDir()}), open(t, Options{Dir: t.TempDir()})
	l := logOf(t, k, merge.Options{})
	run(t, k, l)
	until(t, "it is written", func() bool { return k.Size() > 0 })
	if err := other.Run(t.Context(), l); !errors.Is(err, merge.ErrRecorded) {
		t.Errorf("a second keeper of one log: %v", err)
	}
}

// TestDiskFull runs on a small file system of its own.
func TestDiskFull(t *testing.T) {
	dir := t.TempDir()
	testutil.Need(t, "mount", mountSmall(t, dir, 4<<20))
	log, lines := logger()
	k := open(t, Options{Dir: dir, Log: log})
	l := logOf(t, k, merge.Options{})
	stop := run(t, k, l)
	publish(l, newNode(1), 100)
	until(t, "it is written", func() bool { return k.Size() > 0 && k.Problem() == "" })

	ballast := filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 6<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("the file system takes more than it should: %v", err)
	}
	burst(l, 200)
	until(t, "it says that the disk is full", func() bool { return strings.Contains(k.Problem(), "free space") })
	check(t, os.Remove(ballast))
	until(t, "it is written again", func() bool { return k.Problem() == "" })
	want := podsOf(t, l)
	check(t, stop())
	if lines.count("level=ERROR") != 1 || lines.count("kept again") != 1 || lines.count("moved aside") != 0 {
		t.Errorf("logged\n%s", lines.buf.String())
	}
	k = open(t, Options{Dir: dir})
	if got := podsOf(t, logOf(t, k, merge.Options{})); got != want {
		t.Errorf("kept is\n%s, want\n%s", got, want)
	}
	check(t, k.Close())
}
