//go:build linux

package bpf

import (
	"bytes"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
)

// The Go side reads records by offsets of its own; this holds them to the object.
func TestRecordLayout(t *testing.T) {
	spec, err := loadProbe()
	if err != nil {
		t.Fatal(err)
	}
	var record *btf.Struct
	if err := spec.Types.TypeByName("record", &record); err != nil {
		t.Fatal(err)
	}
	want := map[string]uint32{
		"ktime": offKtime, "cgroup": offCgroup, "hierarchy": offHierarchy, "tgid": offTGID,
		"kind": offKind, "names_len": offNamesLen, "names_count": offNamesCount, "names": offNames,
	}
	for _, m := range record.Members {
		if off, ok := want[m.Name]; !ok || off != m.Offset.Bytes() {
			t.Errorf("%s is at %d, expected at %d", m.Name, m.Offset.Bytes(), off)
		}
		delete(want, m.Name)
	}
	if len(want) > 0 {
		t.Errorf("not in the object: %v", want)
	}
	if record.Size != offNames+namesRoom {
		t.Errorf("record of %d bytes, expected %d", record.Size, offNames+namesRoom)
	}
	for c, kind := range map[probeKind]Kind{
		probeKindKIND_STARTED: KindStarted, probeKindKIND_EXITED: KindExited, probeKindKIND_EMPTY: KindEmpty,
	} {
		if uint32(c) != uint32(kind) {
			t.Errorf("kind %d is %v here", c, kind)
		}
	}
}

// The probe must not come to need what 5.10 lacks, nor what may be switched off.
func TestProgramsAreTracepointsWithBTF(t *testing.T) {
	spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(_ProbeBytes))
	if err != nil {
		t.Fatal(err)
	}
	for name, prog := range spec.Programs {
		if prog.Type != ebpf.Tracing || prog.AttachType != ebpf.AttachTraceRawTp {
			t.Errorf("%s is a %v attached as %v", name, prog.Type, prog.AttachType)
		}
	}
	for name, m := range spec.Maps {
		switch m.Type {
		case ebpf.Array, ebpf.LRUHash, ebpf.RingBuf:
		default:
			t.Errorf("map %s is a %v", name, m.Type)
		}
	}
}
