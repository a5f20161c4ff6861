package daemon

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/internal/serve"
)

// TestSocketIfPossible has sockets that can't be made. One that nobody asked for is
// done without, unless another daemon is there: then a mistake is likelier.
func TestSocketIfPossible(t *testing.T) {
	dir, err := os.MkdirTemp("", "hp") // short, for a socket
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	taken, err := net.Listen("unix", filepath.Join(dir, "taken"))
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for _, test := range []struct {
		path       string
		ifPossible bool
		says       string // in the error; empty: in the log
	}{
		{"/dev/null/x/s", true, ""},
		{"/dev/null/x/s", false, "--listen unix:///dev/null/x/s: "},
		{taken.Addr().String(), true, "is in use"},
		{taken.Addr().String(), false, "is in use"},
	} {
		var log bytes.Buffer
		s := &settings{socket: test.path, group: -1, log: slog.New(slog.NewTextHandler(&log, nil))}
		s.Listen, s.ListenIfPossible = "unix://"+test.path, test.ifPossible
		ls, err := s.listenAgents(t.Context())
		if ls.Local != nil {
			t.Errorf("%+v: it listens", test)
			closeAgents(ls)
		}
		switch {
		case test.says == "" && (err != nil || !strings.Contains(log.String(), "doing without a socket for agents")):
			t.Errorf("%+v: %v, and the log says %q", test, err, &log)
		case test.says != "" && (err == nil || !strings.Contains(err.Error(), test.says)):
			t.Errorf("%+v: %v", test, err)
		}
	}
}

// TestRunServesAgents has the parts together: what is asked for at the socket is what
// the generator has, and nothing is left at the end.
func TestRunServesAgents(t *testing.T) {
	dir, err := os.MkdirTemp("", "hp")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	logs := t.TempDir() // before it would be made in dir
	t.Setenv("TMPDIR", dir)
	path := filepath.Join(dir, "run", "s")
	opts := defaults(t, logs, os.Stdout)
	opts.Output, opts.HTTP = "none", ""
	opts.Listen, opts.HTTPAPI, opts.StateDir = "unix://"+path, "127.0.0.1:0", filepath.Join(dir, "state")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, opts) }()
	page := ask(t, path, "/v1/events", `{"synced":`)
	if !strings.HasPrefix(page, `{"pod":`) && !strings.HasPrefix(page, `{"synced":`) {
		t.Errorf("the stream begins with %.100s", page)
	}
	ask(t, path, "/v1/info", `"stateDirectory":{"path":"`+opts.StateDir+`"}`)
	ask(t, path, "/v1/info", `"name":"hybrid-pleg-embedded"`)
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// ask asks for a page until it has a text, and returns what came up to that.
func ask(t *testing.T, socket, path, want string) string {
	t.Helper()
	deadline, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for deadline.Err() == nil {
		conn, err := net.Dial("unix", socket)
		if err != nil { // it does not listen yet
			<-time.After(5 * time.Millisecond)
			continue
		}
		stop := context.AfterFunc(deadline, func() { conn.Close() })
		body := read(conn, path, want)
		stop()
		conn.Close()
		if strings.Contains(body, want) {
			return body
		}
	}
	t.Fatalf("%s never had %s", path, want)
	return ""
}

// read reads an answer until it has a text, or ends.
func read(conn net.Conn, path, want string) string {
	if _, err := conn.Write([]byte("GET " + path + " HTTP/1.0\r\n\r\n")); err != nil {
		return ""
	}
	var got strings.Builder
	buf := make([]byte, 4096)
	for !strings.Contains(got.String(), want) {
		n, err := conn.Read(buf)
		got.Write(buf[:n])
		if err != nil {
			break
		}
	}
	_, body, _ := strings.Cut(got.String(), "\r\n\r\n")
	return body
}

// TestLimitFlags has each limit name its flag.
func TestLimitFlags(t *testing.T) {
	good, err := serve.Limits{}.Complete()
	if err != nil {
		t.Fatal(err)
	}
	for flag, spoil := range map[string]func(*serve.Limits){
		"--max-watchers":            func(l *serve.Limits) { l.Watchers = 0 },
		"--watcher-buffer":          func(l *serve.Limits) { l.WatcherBuffer = 0 },
		"--max-message-size":        func(l *serve.Limits) { l.MessageSize = 0 },
		"--max-requests-per-second": func(l *serve.Limits) { l.RequestsPerSecond = 0 },
	} {
		s := &settings{}
		s.Limits = good
		spoil(&s.Limits)
		if err := s.checkAgents(); !errors.Is(err, ErrUsage) || !strings.HasPrefix(err.Error(), flag+": give ") {
			t.Errorf("%s: %v", flag, err)
		}
	}
}
