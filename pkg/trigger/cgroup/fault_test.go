package cgroup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/trigger"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/trigger/cgroupfs"
)

// fakeWatcher tells only what a test puts in.
type fakeWatcher struct {
	events chan fsnotify.Event
	errs   chan error
	addErr error // what Add returns once limit paths are watched
	rmErr  error
	limit  int

	mu      sync.Mutex
	watched []string
	closed  bool
}

func newFakeWatcher() *fakeWatcher {
	return &fakeWatcher{events: make(chan fsnotify.Event), errs: make(chan error), limit: 1 << 20}
}

func (w *fakeWatcher) Add(path string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.watched) >= w.limit {
		return w.addErr
	}
	if _, err := os.Stat(path); err != nil {
		return err
	}
	w.watched = append(w.watched, path)
	return nil
}

func (w *fakeWatcher) Remove(path string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := slices.Index(w.watched, path)
	if i < 0 {
		return fmt.Errorf("%w: %s", fsnotify.ErrNonExistentWatch, path)
	}
	w.watched = slices.Delete(w.watched, i, i+1)
	return w.rmErr
}

func (w *fakeWatcher) Events() <-chan fsnotify.Event { return w.events }
func (w *fakeWatcher) Errors() <-chan error          { return w.errs }

func (w *fakeWatcher) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	return nil
}

func writePopulated(t *testing.T, dir, value string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "cgroup.events"), []byte("populated "+value+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
}

// After an overflow nothing that was queued is known: the source says so, and finds
// the differences by itself.
func TestOverflow(t *testing.T) {
	root := t.TempDir()
	pod := filepath.Join(root, "kubepods", "pod"+fakeUID(1))
	writePopulated(t, filepath.Join(pod, fakeID(1)), "1")
	writePopulated(t, filepath.Join(pod, fakeID(2)), "1")
	writePopulated(t, filepath.Join(pod, fakeID(3)), "0")

	w, rec := newFakeWatcher(), newRecorder()
	src := New(Options{Root: root, Log: logTo(t)})
	src.newWatcher = func() (watcher, error) { return w, nil }
	stop := start(t, src, rec)

	writePopulated(t, filepath.Join(pod, fakeID(1)), "0")
	if err := os.RemoveAll(filepath.Join(pod, fakeID(2))); err != nil {
		t.Fatal(err)
	}
	writePopulated(t, filepath.Join(root, "kubepods", "pod"+fakeUID(2), fakeID(4)), "1")
	w.errs <- fmt.Errorf("inotify: %w", fsnotify.ErrEventOverflow)

	who := func(pod, container int) string {
		return fmt.Sprintf(" pod=%s container=%s", fakeUID(pod), fakeID(container))
	}
	want := []string{
		"lost",
		"exited" + who(1, 1),
		"exited" + who(1, 2),
		"cgroup-removed" + who(1, 2),
		"cgroup-added pod=" + fakeUID(2),
		"cgroup-added" + who(2, 4),
		"started" + who(2, 4),
	}
	signals := rec.waitFor(t, "differences", func(s []trigger.Signal) bool { return len(s) >= len(want) })
	var got []string
	for _, s := range signals {
		got = append(got, line(s))
	}
	if got[0] != "lost" {
		t.Errorf("the first signal is %s", got[0])
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("signals:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	stop()
	if !w.closed {
		t.Error("the watcher was left open")
	}
}

// runError runs a source that is to fail.
func runError(t *testing.T, src *Source, r *recorder) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err := src.Run(ctx, r)
	if err == nil {
		t.Fatal("Run returned nil")
	}
	return err
}

func TestWatchLimit(t *testing.T) {
	root := t.TempDir()
	for i := range 3 {
		writePopulated(t, filepath.Join(root, "kubepods", "pod"+fakeUID(1), fakeID(i)), "1")
	}
	noSpace := fmt.Errorf("add: %w", syscall.ENOSPC)
	check := func(t *testing.T, err error) {
		t.Helper()
		if !errors.Is(err, ErrLimit) || !errors.Is(err, syscall.ENOSPC) || errors.Is(err, trigger.ErrUnsupported) {
			t.Errorf("wrong kind of error: %v", err)
		}
		if !strings.Contains(err.Error(), "fs.inotify.max_user_watches") {
			t.Errorf("the error names no sysctl: %v", err)
		}
	}
	for limit := range 4 { // the root, kubepods, the pod, a container
		t.Run(fmt.Sprintf("start %d", limit), func(t *testing.T) {
			w, rec := newFakeWatcher(), newRecorder()
			w.addErr, w.limit = noSpace, limit
			src := New(Options{Root: root})
			src.newWatcher = func() (watcher, error) { return w, nil }
			check(t, runError(t, src, rec))
			if len(rec.up) != 0 || !w.closed {
				t.Errorf("up %d times, watcher closed: %v", len(rec.up), w.closed)
			}
			if _, known := src.Alive(fakeID(0)); known {
				t.Error("knows containers while it does not run")
			}
		})
	}
	t.Run("later", func(t *testing.T) {
		w, rec := newFakeWatcher(), newRecorder()
		w.addErr, w.limit = noSpace, 6
		src := New(Options{Root: root})
		src.newWatcher = func() (watcher, error) { return w, nil }
		ended := make(chan error)
		go func() { ended <- runError(t, src, rec) }()
		rec.waitUp(t)
		dir := filepath.Join(root, "kubepods", "pod"+fakeUID(1), fakeID(9))
		writePopulated(t, dir, "1")
		w.events <- fsnotify.Event{Name: dir, Op: fsnotify.Create}
		check(t, <-ended)
	})
}

func TestInstanceLimit(t *testing.T) {
	src := New(Options{Root: t.TempDir()})
	src.newWatcher = func() (watcher, error) { return nil, fmt.Errorf("inotify: %w", syscall.EMFILE) }
	err := runError(t, src, newRecorder())
	if !errors.Is(err, ErrLimit) || errors.Is(err, trigger.ErrUnsupported) || !strings.Contains(err.Error(), "fs.inotify.max_user_instances") {
		t.Errorf("Run: %v", err)
	}
}

func TestQueueEnds(t *testing.T) {
	broken := errors.New("broken")
	for name, end := range map[string]func(*fakeWatcher){
		"closed": func(w *fakeWatcher) { close(w.events) },
		"error":  func(w *fakeWatcher) { w.errs <- broken },
	} {
		t.Run(name, func(t *testing.T) {
			w, rec := newFakeWatcher(), newRecorder()
			src := New(Options{Root: t.TempDir()})
			src.newWatcher = func() (watcher, error) { return w, nil }
			ended := make(chan error)
			go func() { ended <- runError(t, src, rec) }()
			rec.waitUp(t)
			end(w)
			if err := <-ended; name == "error" && !errors.Is(err, broken) {
				t.Errorf("Run: %v", err)
			}
		})
	}
}

// On Linux 7.3 a removed cgroup's watch is gone before it is removed by hand.
func TestWatchGoneByItself(t *testing.T) {
	root := t.TempDir()
	pod := filepath.Join(root, "kubepods", "pod"+fakeUID(1))
	dir := filepath.Join(pod, fakeID(1))
	writePopulated(t, dir, "0")
	w, rec := newFakeWatcher(), newRecorder()
	w.rmErr = fmt.Errorf("remove: %w", syscall.EINVAL)
	src := New(Options{Root: root, Log: logTo(t)})
	src.newWatcher = func() (watcher, error) { return w, nil }
	start(t, src, rec)
	for _, gone := range []string{dir, pod} {
		if err := os.RemoveAll(gone); err != nil {
			t.Fatal(err)
		}
		w.events <- fsnotify.Event{Name: gone, Op: fsnotify.Remove}
		w.events <- fsnotify.Event{Name: gone, Op: fsnotify.Remove} // told twice
	}
	signals := rec.waitFor(t, "removals", func(s []trigger.Signal) bool { return len(s) >= 2 })
	if got := format(signals); strings.Count(got, "cgroup-removed") != 2 || len(signals) != 2 {
		t.Errorf("signals:\n%s", got)
	}
}

// A container that is gone when its event is read was there all the same.
func TestGoneBeforeLooked(t *testing.T) {
	root := t.TempDir()
	pod := filepath.Join(root, "kubepods", "pod"+fakeUID(1))
	if err := os.MkdirAll(pod, 0o755); err != nil {
		t.Fatal(err)
	}
	w, rec := newFakeWatcher(), newRecorder()
	src := New(Options{Root: root, Log: logTo(t)})
	src.newWatcher = func() (watcher, error) { return w, nil }
	start(t, src, rec)
	dir := filepath.Join(pod, fakeID(1))
	w.events <- fsnotify.Event{Name: dir, Op: fsnotify.Create}
	w.events <- fsnotify.Event{Name: dir, Op: fsnotify.Remove}
	signals := rec.waitFor(t, "two signals", func(s []trigger.Signal) bool { return len(s) >= 2 })
	who := " pod=" + fakeUID(1) + " container=" + fakeID(1)
	if line(signals[0]) != "cgroup-added"+who || line(signals[1]) != "cgroup-removed"+who {
		t.Errorf("signals:\n%s", format(signals))
	}
}

// After an overflow the events from before it may be read when the scan is over, and the removal
// be the one that was dropped: no container may stay that is not there.
func TestNoPhantomAfterOverflow(t *testing.T) {
	root := t.TempDir()
	pods := filepath.Join(root, "kubepods")
	pod := filepath.Join(pods, "pod"+fakeUID(1))
	if err := os.MkdirAll(pod, 0o755); err != nil {
		t.Fatal(err)
	}
	w, rec := newFakeWatcher(), newRecorder()
	src := New(Options{Root: root, Log: logTo(t)})
	src.newWatcher = func() (watcher, error) { return w, nil }
	start(t, src, rec)
	w.errs <- fmt.Errorf("inotify: %w", fsnotify.ErrEventOverflow)
	w.events <- fsnotify.Event{Name: filepath.Join(pod, fakeID(1)), Op: fsnotify.Create}
	w.events <- fsnotify.Event{Name: filepath.Join(pods, "pod"+fakeUID(2)), Op: fsnotify.Create}

	var got []string
	for _, s := range rec.waitFor(t, "five signals", func(s []trigger.Signal) bool { return len(s) >= 5 }) {
		got = append(got, line(s))
	}
	container, gone := " pod="+fakeUID(1)+" container="+fakeID(1), " pod="+fakeUID(2)
	want := []string{"lost", "cgroup-added" + container, "cgroup-removed" + container, "cgroup-added" + gone, "cgroup-removed" + gone}
	if !slices.Equal(got, want) {
		t.Errorf("signals:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if alive, known := src.Alive(fakeID(1)); alive || known {
		t.Errorf("a container that is gone: alive %v, known %v", alive, known)
	}
}

// asking asks for each container the moment it is signalled.
type asking struct {
	*recorder
	src     *Source
	unknown []string // owned by the source's goroutine while Run runs
}

func (a *asking) Signal(s trigger.Signal) {
	if _, known := a.src.Alive(s.ContainerID); s.Kind == trigger.KindCgroupAdded && s.ContainerID != "" && !known {
		a.unknown = append(a.unknown, s.ContainerID)
	}
	a.recorder.Signal(s)
}

// Who gets the signal of a new container may ask for it at once.
func TestKnownWhenSignalled(t *testing.T) {
	root := t.TempDir()
	pod := filepath.Join(root, "kubepods", "pod"+fakeUID(1))
	if err := os.MkdirAll(pod, 0o755); err != nil {
		t.Fatal(err)
	}
	w, rec := newFakeWatcher(), newRecorder()
	src := New(Options{Root: root, Log: logTo(t)})
	src.newWatcher = func() (watcher, error) { return w, nil }
	sink := &asking{recorder: rec, src: src}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- src.Run(ctx, sink) }()
	rec.waitUp(t)
	dir := filepath.Join(pod, fakeID(1))
	writePopulated(t, dir, "1")
	w.events <- fsnotify.Event{Name: dir, Op: fsnotify.Create}
	rec.waitFor(t, "two signals", func(s []trigger.Signal) bool { return len(s) >= 2 })
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if len(sink.unknown) > 0 {
		t.Errorf("not known yet: %v", sink.unknown)
	}
}

func TestCandidatesAreBounded(t *testing.T) {
	root := t.TempDir()
	for i := range 50 {
		if err := os.MkdirAll(filepath.Join(root, "system.slice", fmt.Sprintf("s%d.service", i)), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(root, "zzz"), 0o755); err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	w, rec := newFakeWatcher(), newRecorder()
	src := New(Options{Root: root, MaxCandidates: 10, Log: textLog(&log)})
	src.newWatcher = func() (watcher, error) { return w, nil }
	stop := start(t, src, rec)
	stop()
	// The root, ten candidates.
	if len(w.watched) != 11 || !slices.Contains(w.watched, filepath.Join(root, "zzz")) {
		t.Errorf("watched: %q", w.watched)
	}
	if strings.Count(log.String(), "level=WARN") != 1 || !strings.Contains(log.String(), "--cgroup-root") {
		t.Errorf("log: %s", log.String())
	}
}

func TestUnsupported(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Dir(file)
	mounted := cgroupfs.Layout{Mode: cgroupfs.Hybrid, Mounts: []cgroupfs.Hierarchy{{Version: 2, Mountpoint: filepath.Join(dir, "unified"), Root: "/"}}}
	tests := []struct {
		name   string
		root   string
		layout cgroupfs.Layout
		text   string
	}{
		{"nothing mounted", "", cgroupfs.Layout{Mode: cgroupfs.Unavailable}, "mount the host's /sys/fs/cgroup"},
		{"no directory", file, cgroupfs.Layout{}, "not a directory"},
		{"above the mounts", dir, mounted, "name one of these"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			src := New(Options{Root: tt.root})
			src.detect = func() (cgroupfs.Layout, error) { return tt.layout, nil }
			err := runError(t, src, newRecorder())
			if !errors.Is(err, trigger.ErrUnsupported) || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("Run: %v", err)
			}
		})
	}
	// A root that isn't there may still come.
	src := New(Options{Root: filepath.Join(dir, "kubepods")})
	if err := runError(t, src, newRecorder()); errors.Is(err, trigger.ErrUnsupported) || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Run without the root: %v", err)
	}
}

// Stop while the first scan is under way.
func TestStopDuringScan(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	rec := newRecorder()
	if err := New(Options{Root: t.TempDir()}).Run(ctx, rec); err != nil {
		t.Errorf("Run: %v", err)
	}
	select {
	case <-rec.up:
		t.Error("up after the end")
	case <-time.After(0):
	}
}
