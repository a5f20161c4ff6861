package bpf

import (
	"encoding/binary"
	"errors"
	"testing"
)

func TestDecode(t *testing.T) {
	names := "id\x00pod1\x00kubepods\x00"
	raw := make([]byte, offNames+namesRoom)
	order := binary.NativeEndian
	order.PutUint64(raw[offKtime:], 12)
	order.PutUint64(raw[offCgroup:], 1<<40+3)
	order.PutUint32(raw[offHierarchy:], 4)
	order.PutUint32(raw[offTGID:], 5)
	order.PutUint32(raw[offKind:], uint32(KindExited))
	order.PutUint16(raw[offNamesLen:], uint16(len(names)))
	copy(raw[offNames:], names+"what an older record left")

	var got Record
	if err := got.decode(raw); err != nil {
		t.Fatal(err)
	}
	want := Record{Kind: KindExited, Ktime: 12, Cgroup: Cgroup{ID: 1<<40 + 3, Hierarchy: 4}, TGID: 5, Path: "/kubepods/pod1/id"}
	if got != want {
		t.Errorf("got %+v\nwant %+v", got, want)
	}

	if err := got.decode(raw[:offNames-1]); !errors.Is(err, errBadRecord) {
		t.Errorf("short record: %v", err)
	}
	order.PutUint16(raw[offNamesLen:], namesRoom+1)
	if err := got.decode(raw); !errors.Is(err, errBadRecord) {
		t.Errorf("too many names: %v", err)
	}
}

func TestJoinNames(t *testing.T) {
	for in, want := range map[string]string{
		"":               "",
		"a\x00":          "/a",
		"a\x00b\x00":     "/b/a",
		"a\x00\x00b\x00": "/b//a",
		"a\x00b":         "/a",
		"a":              "",
	} {
		if got := joinNames([]byte(in)); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte{})
	f.Add(make([]byte, offNames+namesRoom))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var rec Record
		if err := rec.decode(raw); err != nil && !errors.Is(err, errBadRecord) {
			t.Error(err)
		}
	})
}
