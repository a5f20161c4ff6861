package serve

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sync/errgroup"
)

func TestSocketPath(t *testing.T) {
	for endpoint, want := range map[string]string{
		"unix:///run/x.sock":                  "/run/x.sock",
		"unix:///run//a/../x":                 "/run/x",
		DefaultListen:                         "/run/hybrid-pleg/hybrid-pleg.sock",
		"unix:/run/x.sock":                    "/run/x.sock",
		"/run/x.sock":                         "",
		"unix://run/x.sock":                   "",
		"unix://":                             "",
		"tcp://127.0.0.1:1":                   "",
		"unix:///run/x?y=z":                   "",
		"unix:///%zz":                         "",
		"unix:///" + string(make([]byte, 3)):  "",
		"unix:///" + strings.Repeat("x", 103): "",
	} {
		path, err := SocketPath(endpoint)
		if path != want || (err == nil) != (want != "") || err != nil && !errors.Is(err, ErrEndpoint) {
			t.Errorf("%q: %q, %v", endpoint, path, err)
		}
	}
}

func TestGroupID(t *testing.T) {
	for name, want := range map[string]int{"": -1, "0": 0, "12345": 12345} {
		if id, err := GroupID(name); id != want || err != nil {
			t.Errorf("%q: %d, %v", name, id, err)
		}
	}
	for _, name := range []string{"no-such-group", "-1", "99999999999"} {
		if _, err := GroupID(name); err == nil || !strings.Contains(err.Error(), "there is no group") {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func mode(t *testing.T, path string) fs.FileMode {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode()
}

func TestSocketIsMadeAndRemoved(t *testing.T) {
	dir := shortDir(t)
	path := filepath.Join(dir, "run", "s")
	group := os.Getgid()
	l, err := ListenSocket(t.Context(), path, group)
	if err != nil {
		t.Fatal(err)
	}
	if m := mode(t, path); m != fs.ModeSocket|0o660 {
		t.Errorf("the socket's mode is %s", m)
	}
	if m := mode(t, filepath.Dir(path)); m.Perm() != 0o750 {
		t.Errorf("the directory's mode is %s", m)
	}
	// A live one is left alone, by daemons as by who asks only the socket.
	if _, err := ListenSocket(t.Context(), path, -1); !errors.Is(err, ErrInUse) {
		t.Errorf("a second one: %v", err)
	}
	if err := os.Remove(path + ".lock"); err != nil {
		t.Fatal(err)
	}
	if _, err := ListenSocket(t.Context(), path, -1); !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), "a running daemon listens there") {
		t.Errorf("a second one without the lock: %v", err)
	}
	for range 2 {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
	// The directory stays, for the pods that have mounted it.
	if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}

	// A directory that was there stays as it is.
	l, err = ListenSocket(t.Context(), filepath.Join(dir, "s"), -1)
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if m := mode(t, dir); m.Perm() != 0o755 {
		t.Errorf("the mode of a directory that was there is %s", m)
	}
}

func TestStaleSocketIsTakenOver(t *testing.T) {
	path := filepath.Join(shortDir(t), "s")
	dead, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	dead.(*net.UnixListener).SetUnlinkOnClose(false)
	dead.Close()
	if err := os.WriteFile(path+".lock", nil, 0o600); err != nil { // of a daemon that was killed
		t.Fatal(err)
	}
	l, err := ListenSocket(t.Context(), path, -1)
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
}

func TestForeignIsLeftAlone(t *testing.T) {
	dir := shortDir(t)
	file, link, datagram := filepath.Join(dir, "f"), filepath.Join(dir, "l"), filepath.Join(dir, "d")
	if err := os.WriteFile(file, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	packets, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: datagram, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer packets.Close()
	for path, want := range map[string]error{file: ErrForeign, link: ErrForeign, dir: ErrForeign, datagram: nil} {
		if _, err := ListenSocket(t.Context(), path, -1); err == nil || want != nil && !errors.Is(err, want) {
			t.Errorf("%s: %v", path, err)
		}
		mode(t, path)
		if _, err := os.Lstat(path + ".lock"); err == nil {
			t.Errorf("%s.lock was left behind", path)
		}
	}
	if data, err := os.ReadFile(file); err != nil || string(data) != "precious" {
		t.Errorf("%q, %v", data, err)
	}
	if _, err := ListenSocket(t.Context(), filepath.Join(file, "s"), -1); err == nil {
		t.Error("a socket in a file")
	}
}

// TestReplacedSocketStays has somebody put another socket in place.
func TestReplacedSocketStays(t *testing.T) {
	path := filepath.Join(shortDir(t), "s")
	l, err := ListenSocket(t.Context(), path, -1)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	other, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	l.Close()
	mode(t, path)
}

// TestOneOfMany has many daemons start at once on a stale socket.
func TestOneOfMany(t *testing.T) {
	path := filepath.Join(shortDir(t), "s")
	for range 20 {
		dead, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		dead.(*net.UnixListener).SetUnlinkOnClose(false)
		dead.Close()
		listeners := make(chan net.Listener, 8)
		var group errgroup.Group
		for range cap(listeners) {
			group.Go(func() error {
				l, err := ListenSocket(context.Background(), path, -1)
				if err == nil {
					listeners <- l
				} else if !errors.Is(err, ErrInUse) {
					return err
				}
				return nil
			})
		}
		if err := group.Wait(); err != nil {
			t.Fatal(err)
		}
		close(listeners)
		if len(listeners) != 1 {
			t.Fatalf("%d daemons have the socket", len(listeners))
		}
		for l := range listeners {
			l.Close()
		}
	}
}

// TestOnlyTheGroupConnects has processes of a user other than the daemon's try.
func TestOnlyTheGroupConnects(t *testing.T) {
	if os.Geteuid() != 0 || runtime.GOOS != "linux" {
		t.Skip("needs root, to become somebody else, and /proc")
	}
	const nobody, group = 65534, 54321
	dir := shortDir(t)
	for _, path := range []string{filepath.Join(dir, "s"), filepath.Join(dir, "run", "s")} {
		l, err := ListenSocket(t.Context(), path, group)
		if err != nil {
			t.Fatal(err)
		}
		if out, err := dialAs(t, path, nobody); err == nil || !strings.Contains(out, "permission denied") {
			t.Errorf("nobody connects to %s: %v: %s", path, err, out)
		}
		if out, err := dialAs(t, path, nobody, group); err != nil {
			t.Errorf("one of the group can't connect to %s: %v: %s", path, err, out)
		}
		l.Close()
	}
}

// dialAs runs the test's binary as another user, to connect. It is reached through
// /proc, since it lies in a directory of ours.
func dialAs(t *testing.T, path string, id uint32, groups ...uint32) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(within(t), "/proc/self/exe")
	cmd.Env = []string{dialEnv + "=" + path}
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: id, Gid: id, Groups: groups}}
	out, err := cmd.CombinedOutput()
	return string(out), err
}
