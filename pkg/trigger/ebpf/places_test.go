//go:build linux

package ebpf

import (
	"maps"
	"slices"
	"testing"

	"github.com/hybrid-pleg/hybrid-pleg/bpf"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/trigger/cgroupfs"
)

const hybridTable = `#subsys_name	hierarchy	num_cgroups	enabled
cpuset	3	9	1
memory	4	1	1
pids	8	1	1
rdma	0	1	1
hugetlb	9	1	0
`

func TestV1Hierarchies(t *testing.T) {
	want := map[string]uint32{"cpuset": 3, "memory": 4, "pids": 8}
	if got := v1Hierarchies(hybridTable + "garbage\n"); !maps.Equal(got, want) {
		t.Errorf("got %v", got)
	}
}

func TestChoosePlaces(t *testing.T) {
	v1 := v1Hierarchies(hybridTable)
	v2Mount := &cgroupfs.Hierarchy{Version: 2, Mountpoint: "/sys/fs/cgroup", Root: "/"}
	mounts := []cgroupfs.Hierarchy{
		{Version: 1, Mountpoint: "/sys/fs/cgroup/systemd", Root: "/", Controllers: []string{"name=systemd"}},
		{Version: 1, Mountpoint: "/sys/fs/cgroup/memory", Root: "/", Controllers: []string{"memory"}},
	}
	memory := bpf.V1Hierarchy{Controller: "memory", ID: 4}
	for name, test := range map[string]struct {
		layout    cgroupfs.Layout
		v1        map[string]uint32
		want      bpf.V1Hierarchy
		withoutV2 bool
		visible   []uint32
	}{
		"pure v2":                          {cgroupfs.Layout{V2: v2Mount}, nil, bpf.V1Hierarchy{}, false, []uint32{0}},
		"hybrid":                           {cgroupfs.Layout{V2: v2Mount, V1: mounts}, v1, memory, false, []uint32{0, 4}},
		"pure v1":                          {cgroupfs.Layout{V1: mounts}, v1, memory, true, []uint32{4}},
		"only systemd's v1":                {cgroupfs.Layout{V2: v2Mount, V1: mounts[:1]}, nil, bpf.V1Hierarchy{}, false, []uint32{0}},
		"nothing mounted on a v1 host":     {cgroupfs.Layout{}, v1, memory, false, nil},
		"nothing mounted on a v2 host":     {cgroupfs.Layout{}, nil, bpf.V1Hierarchy{}, false, nil},
		"a v1 host without memory":         {cgroupfs.Layout{}, map[string]uint32{"pids": 8}, bpf.V1Hierarchy{Controller: "pids", ID: 8}, false, nil},
		"only v2 mounted on a hybrid host": {cgroupfs.Layout{V2: v2Mount}, v1, memory, false, []uint32{0}},
	} {
		got := choosePlaces(test.layout, test.v1)
		if got.v1 != test.want || got.withoutV2 != test.withoutV2 || !slices.Equal(slices.Sorted(maps.Keys(got.visible)), test.visible) {
			t.Errorf("%s: got %+v", name, got)
		}
	}
}
