package kerneltest

import (
	"fmt"
	"io"
	"path"
	"strings"
)

// archive writes an initramfs: a cpio archive of the kind that the kernel unpacks ("newc").
type archive struct {
	w     io.Writer
	n     int // bytes written
	inode int
	made  map[string]bool // folders
	err   error
}

func newArchive(w io.Writer) *archive { return &archive{w: w, made: make(map[string]bool)} }

// File adds a file, and the folders above it. The first error is returned by Close.
func (a *archive) File(name string, mode int, data []byte) {
	a.folders(path.Dir(name))
	a.entry(name, 0o100000|mode, data)
}

func (a *archive) folders(name string) {
	if name == "." || name == "/" || a.made[name] {
		return
	}
	a.folders(path.Dir(name))
	a.made[name] = true
	a.entry(name, 0o040755, nil)
}

// Close ends the archive.
func (a *archive) Close() error {
	a.inode = -1
	a.entry("TRAILER!!!", 0, nil)
	return a.err
}

func (a *archive) entry(name string, mode int, data []byte) {
	name = strings.TrimPrefix(name, "/")
	a.inode++
	// inode, mode, uid, gid, links, mtime, size, two device numbers of two parts each, length of
	// the name with its end, checksum
	header := "070701"
	for _, field := range []int{a.inode, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0} {
		header += fmt.Sprintf("%08X", field)
	}
	a.write([]byte(header + name + "\x00"))
	a.write(data)
}

// write pads to a multiple of four bytes.
func (a *archive) write(data []byte) {
	if a.err != nil {
		return
	}
	pad := -(a.n + len(data)) & 3
	_, a.err = a.w.Write(append(data[:len(data):len(data)], make([]byte, pad)...))
	a.n += len(data) + pad
}
