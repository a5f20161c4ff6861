package serve

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// DefaultListen is the endpoint at which agents find a daemon.
const DefaultListen = "unix:///run/hybrid-pleg/hybrid-pleg.sock"

// socketMode lets the owner and the group connect.
const socketMode = 0o660

// maxSocketPath is what fits into an address on all systems: 104 bytes on macOS, 108
// on Linux, with the zero at the end.
const maxSocketPath = 103

var (
	// ErrEndpoint marks the error for an endpoint that can't be one.
	ErrEndpoint = errors.New("bad endpoint")
	// ErrInUse marks the error for a socket at which somebody listens.
	ErrInUse = errors.New("in use")
	// ErrForeign marks the error for a path at which there is something that is no
	// socket. It is never removed.
	ErrForeign = errors.New("not a socket")
)

// SocketPath returns the path that an endpoint such as unix:///run/x.sock names. The
// error wraps [ErrEndpoint].
func SocketPath(endpoint string) (string, error) {
	u, err := url.Parse(endpoint)
	if err != nil || u.Scheme != "unix" || u.Host != "" || u.RawQuery != "" || u.Fragment != "" || !filepath.IsAbs(u.Path) {
		return "", fmt.Errorf("%w: %q: give unix:///path, such as %s", ErrEndpoint, endpoint, DefaultListen)
	}
	path := filepath.Clean(u.Path)
	if len(path) > maxSocketPath {
		return "", fmt.Errorf("%w: %q: the path has %d bytes, and a socket's may have %d", ErrEndpoint, endpoint, len(path), maxSocketPath)
	}
	return path, nil
}

// GroupID returns the ID of a group given by name or by number; -1 for the empty
// name, which leaves the group as it is.
func GroupID(name string) (int, error) {
	if name == "" {
		return -1, nil
	}
	if id, err := strconv.ParseUint(name, 10, 31); err == nil {
		return int(id), nil
	}
	g, err := user.LookupGroup(name)
	if err != nil {
		return 0, fmt.Errorf("there is no group %q: give the name or number of one", name)
	}
	return strconv.Atoi(g.Gid)
}

// socket is a listener on a unix socket that takes the file away at its end.
type socket struct {
	*net.UnixListener
	path string
	made fs.FileInfo // the file that is ours to remove
	lock *lockFile
	once sync.Once
	err  error
}

// ListenSocket listens at a path, with mode 0660 and the group given (-1: as it is).
// A missing directory is made, and stays: pods mount it. A socket that nobody listens
// at is taken over; one in use is [ErrInUse], and anything else at the path
// [ErrForeign]. Closing the listener removes the socket.
func ListenSocket(ctx context.Context, path string, group int) (_ net.Listener, err error) {
	s := &socket{path: path}
	if err := makeDirectory(filepath.Dir(path), group); err != nil {
		return nil, err
	}
	// Held while the socket is: of two daemons that start at once, only one looks
	// whether the socket is stale.
	if s.lock, err = lock(path); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.lock.release()
		}
	}()
	if err := removeStale(ctx, path); err != nil {
		return nil, err
	}
	return s, s.listen(ctx, group)
}

func (s *socket) listen(ctx context.Context, group int) error {
	lc := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		// On Linux the file gets the mode that the socket has before it is bound, so
		// there is no moment in which others could connect. Elsewhere it is refused,
		// and the umask has to do.
		return raw.Control(func(fd uintptr) { _ = unix.Fchmod(int(fd), 0o600) })
	}}
	l, err := lc.Listen(ctx, "unix", s.path)
	if err != nil {
		return err
	}
	s.UnixListener = l.(*net.UnixListener)
	s.SetUnlinkOnClose(false)
	if s.made, err = os.Lstat(s.path); err == nil && group >= 0 {
		err = os.Lchown(s.path, -1, group)
	}
	if err == nil {
		err = os.Chmod(s.path, socketMode)
	}
	if err != nil {
		_ = s.UnixListener.Close()
		s.unlink()
	}
	return err
}

// Close ends the listener and removes the socket.
func (s *socket) Close() error {
	s.once.Do(func() {
		s.err = s.UnixListener.Close()
		s.unlink()
		s.lock.release()
	})
	return s.err
}

// unlink removes the socket, unless somebody has put another in its place.
func (s *socket) unlink() {
	if now, err := os.Lstat(s.path); err == nil && s.made != nil && os.SameFile(now, s.made) {
		_ = os.Remove(s.path)
	}
}

// makeDirectory makes a directory if it is not there, for the group only if there is
// one.
func makeDirectory(dir string, group int) error {
	if _, err := os.Stat(dir); err == nil {
		return nil // if it is a file, its use will say so
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	switch err := os.Mkdir(dir, 0o755); {
	case errors.Is(err, fs.ErrExist):
		return nil
	case err != nil:
		return err
	}
	if group < 0 {
		return nil
	}
	if err := errors.Join(os.Lchown(dir, -1, group), os.Chmod(dir, 0o750)); err != nil {
		_ = os.Remove(dir)
		return err
	}
	return nil
}

// removeStale removes a socket that nobody listens at.
func removeStale(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("%s is there and is %w: choose another path, or remove it", path, ErrForeign)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
	switch {
	case err == nil:
		conn.Close()
		return inUse(path)
	case errors.Is(err, syscall.ECONNREFUSED):
		return os.Remove(path)
	case errors.Is(err, fs.ErrNotExist):
		return nil // it has gone meanwhile
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, syscall.EAGAIN):
		return inUse(path) // somebody listens and is too busy to accept
	default:
		return fmt.Errorf("can't tell whether the socket is in use: %w", err)
	}
}

func inUse(path string) error {
	return fmt.Errorf("%s is %w: a running daemon listens there; end it, or choose another path", path, ErrInUse)
}

// lockFile is a file locked by this process.
type lockFile struct{ file *os.File }

// lock makes and locks a file beside a socket; [ErrInUse] when somebody has it locked.
func lock(socket string) (*lockFile, error) {
	path := socket + ".lock"
	for {
		file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
		if err != nil {
			return nil, err
		}
		if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
			file.Close()
			if errors.Is(err, unix.EWOULDBLOCK) {
				return nil, inUse(socket)
			}
			return nil, &fs.PathError{Op: "lock", Path: path, Err: err}
		}
		// Who held it before may have removed it after we opened it.
		mine, err := file.Stat()
		if err == nil {
			var there fs.FileInfo
			if there, err = os.Lstat(path); err == nil && os.SameFile(mine, there) {
				return &lockFile{file}, nil
			}
		}
		file.Close()
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
}

// release removes the file before it is unlocked, so that nobody else's is removed.
func (l *lockFile) release() {
	_ = os.Remove(l.file.Name())
	l.file.Close()
}
