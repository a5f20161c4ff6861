//go:build linux

package ebpf

import (
	"os"
	"testing"
)

func TestParseStat(t *testing.T) {
	const rest = " 5 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 3 0 987654 0 0"
	got, err := parseStat(42, []byte("42 (a) Z (b) R"+rest))
	want := process{pid: 42, parent: 5, started: 987654, state: 'R', threads: 3}
	if err != nil || got != want {
		t.Errorf("got %+v, %v", got, err)
	}
	for _, bad := range []string{"", "42", "42 (x", "42 (x)", "42 (x) R 1 2", "42 (x) R x 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 3 0 9 0"} {
		if _, err := parseStat(42, []byte(bad)); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
	if self, err := readProcess("/proc", os.Getpid()); err != nil || self.parent != os.Getppid() || self.ended() {
		t.Errorf("this process: %+v, %v", self, err)
	}
}

func TestEnded(t *testing.T) {
	for _, test := range []struct {
		p    process
		want bool
	}{
		{process{state: 'S', threads: 1}, false},
		{process{state: 'Z', threads: 1}, true},
		{process{state: 'Z', threads: 2}, false}, // the leader alone has ended
		{process{state: 'X', threads: 0}, true},
	} {
		if got := test.p.ended(); got != test.want {
			t.Errorf("%+v: %v", test.p, got)
		}
	}
}

func TestWorkload(t *testing.T) {
	shim, init := 100, process{pid: 200, parent: 100, started: 50, state: 'S', threads: 1}
	for name, test := range map[string]struct {
		inside []process
		want   int // 0: none
	}{
		"empty":                          {nil, 0},
		"alone":                          {[]process{init}, 200},
		"with a child":                   {[]process{{pid: 90, parent: 200, started: 60, state: 'S'}, init}, 200},
		"an older child by a clock tick": {[]process{{pid: 199, parent: 200, started: 50, state: 'S'}, init}, 200},
		"kubectl exec":                   {[]process{{pid: 150, parent: shim, started: 70, state: 'S'}, init}, 200},
		"in the same tick":               {[]process{{pid: 201, parent: shim, started: 50, state: 'S'}, init}, 200},
		"ended":                          {[]process{{pid: 200, parent: shim, started: 50, state: 'Z', threads: 1}}, 0},
		"leader ended":                   {[]process{{pid: 200, parent: shim, started: 50, state: 'Z', threads: 2}}, 200},
	} {
		if got, ok := workload(test.inside); got.pid != test.want || ok != (test.want != 0) {
			t.Errorf("%s: got %+v", name, got)
		}
	}
}
