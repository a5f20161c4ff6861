package ebpf

import (
	"strings"
	"testing"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/bpf"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/trigger"
)

func TestToSignal(t *testing.T) {
	id, uid := strings.Repeat("0123456789abcdef", 4), "26ab26cd-6409-443f-a13c-fd6c231207c8"
	at := time.Now()
	for _, test := range []struct {
		kind bpf.Kind
		path string
		want trigger.Kind // empty: no signal
		uid  string
	}{
		{bpf.KindStarted, "/kubepods/pod" + uid + "/" + id, trigger.KindStarted, uid},
		{bpf.KindExited, "/kubepods/pod" + uid + "/" + id, trigger.KindExited, uid},
		{bpf.KindEmpty, "/kubepods/pod" + uid + "/" + id, trigger.KindExited, uid},
		{bpf.KindStarted, "/k8s.io/" + id, trigger.KindStarted, ""},
		{bpf.KindStarted, "/docker/" + id, trigger.KindStarted, ""},
		{bpf.KindStarted, "/kubepods/pod" + uid, "", ""},
		{bpf.KindStarted, "/crio-conmon-" + id + ".scope", "", ""},
		{bpf.KindStarted, "", "", ""},
	} {
		got, ok := toSignal(&bpf.Record{Kind: test.kind, Path: test.path, Cgroup: bpf.Cgroup{ID: 7}}, at)
		want := trigger.Signal{Source: trigger.SourceEBPF, Kind: test.want, PodUID: test.uid, ContainerID: id, CgroupID: 7, At: at}
		want.Foreign = strings.HasPrefix(test.path, "/docker")
		if test.want == "" {
			want = trigger.Signal{}
		}
		if ok != (test.want != "") || got != want {
			t.Errorf("%v %s: got %+v, %v", test.kind, test.path, got, ok)
		}
	}
}

func TestBackdate(t *testing.T) {
	now := time.Now()
	for _, test := range []struct {
		kernelNow, then uint64
		want            time.Duration
	}{
		{1_000_000, 400_000, -600 * time.Microsecond},
		{1_000_000, 1_000_000, 0},
		{1_000_000, 1_000_001, 0}, // the clocks are not read in the same instant
	} {
		// == compares the monotonic reading too.
		if got := backdate(now, test.kernelNow, test.then); got != now.Add(test.want) {
			t.Errorf("%+v: got %v", test, got.Sub(now))
		}
	}
}
