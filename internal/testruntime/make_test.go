package testruntime

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/hybrid-pleg/hybrid-pleg/internal/testutil"
)

func TestMakeOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "key", "bin")
	var made atomic.Int32
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			err := makeOnce(t.Context(), dir, func(tmp string) error {
				made.Add(1)
				return os.WriteFile(filepath.Join(tmp, "tool"), []byte("x"), 0o755)
			})
			if err != nil {
				t.Error(err)
			}
			if _, err := os.Stat(filepath.Join(dir, "tool")); err != nil {
				t.Errorf("returned before it was made: %v", err)
			}
		})
	}
	wg.Wait()
	if made.Load() != 1 {
		t.Errorf("made %d times", made.Load())
	}
}

func TestMakeOnceFailing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "key", "bin")
	broken := errors.New("no compiler")
	if err := makeOnce(t.Context(), dir, func(string) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("error is %v", err)
	}
	entries, err := os.ReadDir(filepath.Dir(dir))
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 1 || entries[0].Name() != "lock" {
		t.Errorf("a failed build leaves %v", entries)
	}
	if err := makeOnce(t.Context(), dir, func(string) error { return nil }); err != nil {
		t.Errorf("the next build: %v", err)
	}
}

func TestLockFileWaits(t *testing.T) {
	name := filepath.Join(t.TempDir(), "lock")
	unlock, err := lockFile(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := lockFile(ctx, name); !errors.Is(err, context.Canceled) {
		t.Errorf("second lock: %v", err)
	}
	unlock()
	unlock, err = lockFile(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	unlock()
}

func TestStartRefuses(t *testing.T) {
	testutil.Need(t, "containerd", Check())
	long := filepath.Join(t.TempDir(), "a-name-that-makes-the-path-too-long")
	if err := os.Mkdir(long, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		options Options
		want    string
	}{
		"long path":            {Options{Dir: long}, "shorter Options.Dir"},
		"missing binaries":     {Options{BinDir: long}, "the folder of the binaries is incomplete"},
		"relative cgroup":      {Options{CgroupRoot: "kubepods"}, "not an absolute"},
		"broken configuration": {Options{ExtraConfig: "nonsense"}, "end of containerd's log"},
		"missing image":        {Options{ImageArchive: filepath.Join(long, "none.tar")}, "load the test image"},
	} {
		t.Run(name, func(t *testing.T) {
			if tt.options.Dir == "" {
				tt.options.Dir = shortDir(t)
			}
			r, err := Start(t.Context(), tt.options)
			if err == nil {
				t.Fatalf("it started; closing: %v", r.Close())
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error is %q, want it to contain %q", err, tt.want)
			}
			if left, _ := filepath.Glob(filepath.Join(tt.options.Dir, dirPrefix+"*")); len(left) > 0 {
				t.Errorf("left behind: %q", left)
			}
		})
	}
}

// shortDir is t.TempDir with a path that is short enough for sockets.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "hps")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}
