//go:build linux

package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/hybrid-pleg/hybrid-pleg/internal/testruntime"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
)

// binaryEnv names a built hybrid-pleg, for where there is no Go to build one.
const binaryEnv = "HYBRID_PLEG_TEST_BINARY"

// daemonBinary is the path of hybrid-pleg.
func daemonBinary(t *testing.T) string {
	t.Helper()
	if path := os.Getenv(binaryEnv); path != "" {
		return path
	}
	path := filepath.Join(t.TempDir(), "hybrid-pleg")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", path, "../../cmd/hybrid-pleg").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return path
}

// daemon is a running "hybrid-pleg run" with all triggers.
type daemon struct {
	http string

	mu     sync.Mutex
	log    []string
	events []event.Event
}

// startDaemon starts the daemon, without what is named (see lacks), until the test ends.
func startDaemon(t *testing.T, rt *testruntime.Runtime, program, lacking string) *daemon {
	t.Helper()
	args := []string{program, "run", "--runtime-endpoint", rt.Endpoint(), "--http", "127.0.0.1:0", "--listen", "", "--output", "ndjson"}
	ctx := context.WithoutCancel(t.Context()) // it is to end cleanly after the test
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	if lacking != "" {
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		cmd = exec.CommandContext(ctx, self, args...)
		cmd.Env = append(os.Environ(), lackEnv+"="+lacking)
		cgroup, err := os.Open(ownCgroup(t))
		if err != nil {
			t.Fatal(err)
		}
		defer cgroup.Close()
		cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(cgroup.Fd())}
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	d := &daemon{}
	var readers sync.WaitGroup
	readers.Go(func() { d.readLog(stderr) })
	readers.Go(func() { d.readEvents(stdout) })
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		readers.Wait()
		if err := cmd.Wait(); err != nil {
			t.Errorf("the daemon ended: %v", err)
		}
		if t.Failed() {
			t.Logf("the daemon's log:\n%s", strings.Join(d.lines(), "\n"))
		}
	})
	waitFor(t, "the daemon to run", func() error {
		for _, line := range d.lines() {
			if _, rest, ok := strings.Cut(line, " http=http://"); ok && strings.Contains(line, "hybrid-pleg runs") {
				d.http = "http://" + strings.Fields(rest)[0]
				return nil
			}
		}
		return fmt.Errorf("it says:\n%s", strings.Join(d.lines(), "\n"))
	})
	return d
}

func (d *daemon) readLog(r io.Reader) {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		d.mu.Lock()
		d.log = append(d.log, lines.Text())
		d.mu.Unlock()
	}
}

func (d *daemon) readEvents(r io.Reader) {
	decoder := json.NewDecoder(r)
	for {
		var e event.Event
		if err := decoder.Decode(&e); err != nil {
			_, _ = io.Copy(io.Discard, r)
			return
		}
		d.mu.Lock()
		d.events = append(d.events, e)
		d.mu.Unlock()
	}
}

// lines are those of the log so far.
func (d *daemon) lines() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.log)
}

// wantSources waits until the metrics show which sources work and which do not; of those that do
// not, the log must say once what must be said.
func (d *daemon) wantSources(t *testing.T, down map[string]string) {
	t.Helper()
	waitFor(t, "the sources", func() error {
		resp, err := http.Get(d.http + "/metrics")
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			return err
		}
		for _, source := range []string{"cgroup", "ebpf", "cri"} {
			up := "1"
			said := 0
			if reason, isDown := down[source]; isDown {
				up = "0"
				for _, line := range d.lines() {
					if strings.Contains(line, "trigger source is down") && strings.Contains(line, "source="+source) && strings.Contains(line, reason) {
						said++
					}
				}
				if said != 1 {
					return fmt.Errorf("%q of %s is said %d times", reason, source, said)
				}
			}
			if want := fmt.Sprintf("hybrid_pleg_trigger_source_up{source=%q} %s\n", source, up); !strings.Contains(string(text), want) {
				return fmt.Errorf("no line %q", want)
			}
		}
		return nil
	})
	for source := range down {
		t.Logf("hybrid_pleg_trigger_source_up{source=%q} 0", source)
	}
	for _, line := range d.lines() {
		if strings.Contains(line, "level=WARN") {
			t.Log(line)
		}
	}
}

// wantEvents has a container start and end, which must be told.
func (d *daemon) wantEvents(t *testing.T, rt *testruntime.Runtime) {
	t.Helper()
	s := &stage{TB: t, ctx: t.Context(), rt: rt}
	p := s.pod(testruntime.PodSpec{Name: "lacking"})
	c := s.container(p, "main", 0, "exit", "3", "300ms")
	waitFor(t, "a start and an end", func() error {
		d.mu.Lock()
		defer d.mu.Unlock()
		var told []event.Type
		for _, e := range d.events {
			if e.Container != nil && e.Container.ID == c.ID && e.Type != event.ContainerCreated {
				told = append(told, e.Type)
			}
		}
		if want := []event.Type{event.ContainerStarted, event.ContainerDied}; !slices.Equal(told, want) {
			return fmt.Errorf("told %v, want %v", told, want)
		}
		return nil
	})
	s.must(p.Remove(s.ctx))
}

// summary says in a few words what works, and what is said of what does not.
func (d *daemon) summary(down map[string]string) string {
	var b strings.Builder
	for _, source := range []string{"cgroup", "ebpf", "cri"} {
		if reason, isDown := down[source]; isDown {
			fmt.Fprintf(&b, "`%s` is down: “%s”; ", source, reason)
		}
	}
	if b.Len() == 0 {
		return "all three sources work"
	}
	return b.String() + "the others work, and every start and end is told"
}
