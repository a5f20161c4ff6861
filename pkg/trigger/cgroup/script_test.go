package cgroup

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/trigger"
)

// TestScripts plays the scripts in testdata on a directory shaped like a cgroup
// tree. A script reads like a shell session:
//
//	mkdir PATH           with all its parents, as mkdir -p does
//	rmdir PATH           with all that is below
//	populated PATH 0|1   writes cgroup.events in place
//	replaced PATH 0|1    writes it to another file and renames that
//	write PATH           writes some other file of a cgroup
//	start                starts the source; before it, nothing is watched
//	restart              ends it and runs it again
//	alive ID yes|no|unknown
//	> SIGNAL…            the next signal must be this one
//
// PATH and SIGNAL may contain $A $B $C (container IDs) and $P $Q (pod UIDs; $P_ is
// $P in the systemd driver's spelling). Signals that a script does not expect
// fail it.
func TestScripts(t *testing.T) {
	scripts, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(scripts) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range scripts {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) { playScript(t, file) })
	}
}

var scriptNames = strings.NewReplacer(
	"$A", fakeID(0xa), "$B", fakeID(0xb), "$C", fakeID(0xc),
	"$P_", strings.ReplaceAll(fakeUID(1), "-", "_"), "$P", fakeUID(1), "$Q", fakeUID(2),
)

func playScript(t *testing.T, file string) {
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	rec := newRecorder()
	src := New(Options{Root: root, Log: logTo(t)})
	stop := func() {}
	seen := 0
	next := func(where string) string {
		signals := rec.waitFor(t, "signal for "+where, func(s []trigger.Signal) bool { return len(s) > seen })
		seen++
		return line(signals[seen-1])
	}

	for i, text := range strings.Split(string(data), "\n") {
		where := fmt.Sprintf("%s:%d: %s", filepath.Base(file), i+1, text)
		text, _, _ = strings.Cut(text, "#")
		f := strings.Fields(scriptNames.Replace(text))
		if len(f) == 0 {
			continue
		}
		arg := func(i int) string {
			if i >= len(f) {
				t.Fatalf("%s: too few arguments", where)
			}
			return f[i]
		}
		err := error(nil)
		switch f[0] {
		case "mkdir":
			err = os.MkdirAll(filepath.Join(root, arg(1)), 0o755)
		case "rmdir":
			err = os.RemoveAll(filepath.Join(root, arg(1)))
		case "populated":
			err = os.WriteFile(filepath.Join(root, arg(1), "cgroup.events"), []byte("populated "+arg(2)+"\nfrozen 0\n"), 0o644)
		case "replaced":
			name := filepath.Join(root, arg(1), "cgroup.events")
			if err = os.WriteFile(name+".new", []byte("populated "+arg(2)+"\nfrozen 0\n"), 0o644); err == nil {
				err = os.Rename(name+".new", name)
			}
		case "write":
			err = os.WriteFile(filepath.Join(root, arg(1)), []byte("1\n"), 0o644)
		case "start":
			stop = start(t, src, rec)
		case "restart":
			stop()
			stop = start(t, src, rec)
		case "alive":
			alive, known := src.Alive(arg(1))
			got := map[[2]bool]string{{true, true}: "yes", {false, true}: "no", {false, false}: "unknown"}[[2]bool{alive, known}]
			if got != arg(2) {
				t.Errorf("%s: got %s", where, got)
			}
		case ">":
			if got, want := next(where), strings.Join(f[1:], " "); got != want {
				t.Errorf("%s:\n got %s\nwant %s", where, got, want)
			}
		default:
			t.Fatalf("%s: unknown command", where)
		}
		if err != nil {
			t.Fatalf("%s: %v", where, err)
		}
	}

	// One queue keeps the order: what comes before this one's signal was unexpected.
	sentinel := fakeUID(0xfff)
	if err := os.Mkdir(filepath.Join(root, "pod"+sentinel), 0o755); err != nil {
		t.Fatal(err)
	}
	for {
		got := next("the end of the script")
		if got == "cgroup-added pod="+sentinel {
			return
		}
		t.Errorf("%s: unexpected signal: %s", filepath.Base(file), got)
	}
}
