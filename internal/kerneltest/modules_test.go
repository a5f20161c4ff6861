package kerneltest

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// fakeModule is an object file with nothing but .modinfo.
func fakeModule(t *testing.T, info string) []byte {
	t.Helper()
	names := "\x00.modinfo\x00.shstrtab\x00"
	const header, section = 64, 64
	var b bytes.Buffer
	write := func(v any) {
		if err := binary.Write(&b, binary.LittleEndian, v); err != nil {
			t.Fatal(err)
		}
	}
	h := elf.Header64{
		Type: uint16(elf.ET_REL), Machine: uint16(elf.EM_X86_64), Version: 1,
		Shoff: uint64(header + len(info) + len(names)), Ehsize: header, Shentsize: section, Shnum: 3, Shstrndx: 2,
	}
	copy(h.Ident[:], elf.ELFMAG)
	h.Ident[elf.EI_CLASS], h.Ident[elf.EI_DATA], h.Ident[elf.EI_VERSION] = byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), 1
	write(h)
	b.WriteString(info + names)
	write(elf.Section64{})
	write(elf.Section64{Name: 1, Type: uint32(elf.SHT_PROGBITS), Off: header, Size: uint64(len(info))})
	write(elf.Section64{Name: 10, Type: uint32(elf.SHT_STRTAB), Off: uint64(header + len(info)), Size: uint64(len(names))})
	return b.Bytes()
}

func TestTakeModules(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	for name, info := range map[string]string{
		"kernel/fs/overlay.ko":            "license=GPL\x00depends=\x00",
		"kernel/drivers/virtio_blk.ko":    "depends=virtio-ring,virtio\x00name=virtio_blk\x00",
		"kernel/drivers/virtio.ko":        "depends=virtio_ring\x00",
		"kernel/drivers/virtio-ring.ko":   "license=GPL\x00",
		"kernel/drivers/never_asked.ko":   "depends=missing\x00",
		"kernel/drivers/needs_missing.ko": "depends=missing\x00",
	} {
		file := filepath.Join(from, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, fakeModule(t, info), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(from, "modules.builtin"), []byte("kernel/fs/ext4/ext4.ko\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	order, err := takeModules(t.Context(), from, to, []string{"virtio_blk", "ext4", "overlay", "virtio"})
	if want := []string{"virtio_ring.ko", "virtio.ko", "virtio_blk.ko", "overlay.ko"}; err != nil || !slices.Equal(order, want) {
		t.Errorf("order %v, %v", order, err)
	}
	for _, file := range order {
		if !exists(filepath.Join(to, file)) {
			t.Errorf("%s is not taken", file)
		}
	}
	for _, name := range []string{"nothing", "needs_missing"} {
		if _, err := takeModules(t.Context(), from, to, []string{name}); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}
