package testruntime

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/hybrid-pleg/hybrid-pleg/internal/testutil"
)

// Anybody may write to the folder for temporary files. What the owner file there names is
// killed by root: so only our own file may say so, and only of our own cgroup.
func TestSweepTrustsNobody(t *testing.T) {
	if os.Geteuid() != 0 {
		testutil.Need(t, "cgroup", errors.New("only root may make cgroups"))
	}
	const nobody = 65534
	chown := func(t *testing.T, name string) {
		if err := os.Lchown(name, nobody, nobody); err != nil {
			t.Fatal(err)
		}
	}
	for name, test := range map[string]struct {
		cgroup  string // empty: the directory's own
		prepare func(t *testing.T, l layout)
		swept   bool
		fails   string
	}{
		"ours":            {"", func(*testing.T, layout) {}, true, ""},
		"not its cgroup":  {"{victim}", func(*testing.T, layout) {}, false, "need not be the runtime's"},
		"a way around":    {"/{own}/..{victim}", func(*testing.T, layout) {}, false, "need not be the runtime's"},
		"other's folder":  {"", func(t *testing.T, l layout) { chown(t, l.dir) }, false, ""},
		"other's file":    {"", func(t *testing.T, l layout) { chown(t, l.owner()) }, false, ""},
		"writable folder": {"", func(t *testing.T, l layout) { must(t, os.Chmod(l.dir, 0o777)) }, false, ""},
		"link to a file": {"", func(t *testing.T, l layout) {
			must(t, os.Rename(l.owner(), l.owner()+".true"))
			must(t, os.Symlink(l.owner()+".true", l.owner()))
		}, false, "too many levels of symbolic links"},
		"link to a folder": {"", func(t *testing.T, l layout) {
			must(t, os.Rename(l.dir, filepath.Join(filepath.Dir(l.dir), "true")))
			must(t, os.Symlink("true", l.dir))
		}, false, ""},
		"a pipe": {"", func(t *testing.T, l layout) {
			must(t, os.Remove(l.owner()))
			must(t, syscall.Mkfifo(l.owner(), 0o600))
		}, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			parent := t.TempDir()
			dir, err := os.MkdirTemp(parent, dirPrefix)
			must(t, err)
			l := layout{dir}
			own := ownCgroup(dir)
			home, cgroup := own, own
			if test.cgroup != "" {
				home = own + "-victim"
				cgroup = strings.NewReplacer("{victim}", home, "{own}", filepath.Base(own)).Replace(test.cgroup)
			}
			victim := startIn(t, home)
			must(t, os.WriteFile(l.owner(), fmt.Appendf(nil, `{"pid":1,"cgroupRoot":%q}`, cgroup), 0o644))
			test.prepare(t, l)

			err = Sweep(t.Context(), parent)
			if (test.fails == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), test.fails) {
				t.Errorf("Sweep: %v, want %q", err, test.fails)
			}
			if alive := syscall.Kill(victim.Process.Pid, 0) == nil && !zombie(t, victim.Process.Pid); alive == test.swept {
				t.Errorf("the process lives: %v", alive)
			}
			if _, err := os.Lstat(dir); (err != nil) != test.swept {
				t.Errorf("the directory: %v", err)
			}
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// startIn starts a process in a new cgroup.
func startIn(t *testing.T, cgroup string) *exec.Cmd {
	t.Helper()
	points := cgroupMounts()
	if len(points) == 0 {
		testutil.Need(t, "cgroup", errors.New("no cgroup file system is mounted"))
	}
	dir := filepath.Join(points[0], cgroup)
	testutil.Need(t, "cgroup", os.Mkdir(dir, 0o755))
	cmd := exec.CommandContext(context.Background(), "sleep", "600")
	cmd.SysProcAttr = daemonAttr()
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // how it ended does not matter
		if err := removeCgroupDir(dir); err != nil {
			t.Error(err)
		}
	})
	must(t, os.WriteFile(filepath.Join(dir, "cgroup.procs"), fmt.Append(nil, cmd.Process.Pid), 0))
	return cmd
}

// zombie reports whether a child of this process has ended.
func zombie(t *testing.T, pid int) bool {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	must(t, err)
	_, after, _ := strings.Cut(string(stat), ") ")
	return strings.HasPrefix(after, "Z")
}
