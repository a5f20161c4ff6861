package state

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// ErrInUse is why [Open] fails when another process uses the directory.
var ErrInUse = errors.New("the state directory is in use")

// lockDir makes the directory if need be and takes it for this process, for as long
// as the file returned is open.
func lockDir(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("state directory: %w", err)
	}
	path := filepath.Join(dir, lockName)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("state directory: %w; it must be writable by this process", err)
	}
	held, err := tryLock(f)
	switch {
	case err != nil:
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	case held:
		defer f.Close()
		return nil, fmt.Errorf("%w: %s is locked by %s; each process needs a directory of its own", ErrInUse, dir, owner(f))
	}
	// For people and for the error above only, so it may fail.
	if f.Truncate(0) == nil {
		_, _ = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	return f, nil
}

func owner(f *os.File) string {
	buf := make([]byte, 20)
	n, _ := f.ReadAt(buf, 0)
	if pid, err := strconv.Atoi(strings.TrimSpace(string(buf[:n]))); err == nil {
		return fmt.Sprintf("process %d", pid)
	}
	return "another process"
}

// moveAside gives a file that can't be used a name under which it is kept.
func moveAside(path, kind string, now time.Time) (to string, err error) {
	base := path + "." + kind + "-" + now.UTC().Format("20060102T150405Z")
	for n := 1; ; n++ {
		to = base
		if n > 1 {
			to = fmt.Sprintf("%s-%d", base, n)
		}
		if _, err := os.Lstat(to); errors.Is(err, os.ErrNotExist) {
			return to, os.Rename(path, to)
		} else if err != nil {
			return "", err
		}
	}
}
