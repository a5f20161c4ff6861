package state

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
)

// bbolt trusts its pages: a bit that was turned over can send it into an endless
// loop, an allocation of any size or an access to memory that is not there, in
// goroutines of its own, where no recover helps. So the pages that lead to the data
// are looked at before bbolt is. Those on its list of free pages are not: a file of
// before is only read.
//
// The format, which is the machine's in the order of bytes, has been the same since
// bolt 1.0 (go.etcd.io/bbolt/internal/common): a page begins with its number (8
// bytes), flags (2), the count of its elements (2) and how many further pages belong
// to it (4).
const (
	pageHeader = 16
	branchPage = 0x01
	leafPage   = 0x02
	boltMagic  = 0xED0CDAED
	boltFormat = 2
	metaSize   = 64
	maxDepth   = 64
	// maxFile is more than a state file can have grown to.
	maxFile    = 1 << 32
	bucketHead = 16
	isBucket   = 1
)

// errNotBolt marks what is not a bbolt file at all.
var errNotBolt = errors.New("it is not a state file")

var native = binary.NativeEndian

// checkPages says what is wrong with the pages of a bbolt file of that size.
func checkPages(file io.ReaderAt, size int64) error {
	if size > maxFile {
		return errNotBolt
	}
	root, c, err := newestMeta(file, size)
	if err != nil {
		return err
	}
	return c.tree(root, 0)
}

// pageCheck is the check of one tree of pages.
type pageCheck struct {
	file     io.ReaderAt
	pageSize int64
	pages    uint64          // how many the file has, as the meta page says
	seen     map[uint64]bool // no page is in the tree twice, so that it ends
}

// newestMeta finds the meta page that bbolt will use, as it does: of the first two
// pages the valid one of the later transaction.
func newestMeta(file io.ReaderAt, size int64) (root uint64, c *pageCheck, err error) {
	var best uint64
	bolt := false
	look := func(at int64) {
		buf := make([]byte, pageHeader+metaSize)
		if n, _ := file.ReadAt(buf, at); n < len(buf) {
			return
		}
		m := buf[pageHeader:]
		if native.Uint32(m) != boltMagic {
			return
		}
		bolt = true
		sum := fnv.New64a()
		_, _ = sum.Write(m[:metaSize-8])
		pageSize, pages, tx := int64(native.Uint32(m[8:])), native.Uint64(m[40:]), native.Uint64(m[48:])
		switch {
		case native.Uint32(m[4:]) != boltFormat || native.Uint64(m[56:]) != sum.Sum64():
		case pageSize < 1024 || pageSize > 1<<24 || pageSize&(pageSize-1) != 0 || at != 0 && at != pageSize:
		case pages < 2 || pages > uint64(size/pageSize):
			err = fmt.Errorf("it has %d bytes, which is less than its %d pages take", size, pages)
		case c == nil || tx > best:
			best, root = tx, native.Uint64(m[16:])
			c = &pageCheck{file: file, pageSize: pageSize, pages: pages, seen: map[uint64]bool{0: true, 1: true}}
		}
	}
	look(0)
	if c != nil {
		look(c.pageSize)
	} else {
		for at := int64(1024); at <= 1<<24 && at < size; at *= 2 {
			look(at)
		}
	}
	switch {
	case err != nil:
		return 0, nil, err
	case c == nil && !bolt:
		return 0, nil, errNotBolt
	case c == nil:
		return 0, nil, errors.New("both its meta pages are damaged")
	}
	return root, c, nil
}

func (c *pageCheck) tree(id uint64, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("page %d is too deep in the tree", id)
	}
	page, err := c.read(id)
	if err != nil {
		return err
	}
	switch flags := native.Uint16(page[8:]); flags {
	case branchPage:
		return c.branch(page, depth)
	case leafPage:
		return c.leaf(page, depth)
	default:
		return fmt.Errorf("page %d has the flags %#x, of no page of a tree", id, flags)
	}
}

// read reads a page and those that belong to it.
func (c *pageCheck) read(id uint64) ([]byte, error) {
	head := make([]byte, pageHeader)
	if id >= c.pages {
		return nil, fmt.Errorf("there is no page %d", id)
	}
	if _, err := c.file.ReadAt(head, int64(id)*c.pageSize); err != nil {
		return nil, fmt.Errorf("read page %d: %w", id, err)
	}
	more := uint64(native.Uint32(head[12:]))
	if native.Uint64(head) != id || id+more >= c.pages {
		return nil, fmt.Errorf("page %d says that it is page %d and %d more", id, native.Uint64(head), more)
	}
	for i := id; i <= id+more; i++ {
		if c.seen[i] {
			return nil, fmt.Errorf("page %d is in use twice", i)
		}
		c.seen[i] = true
	}
	page := make([]byte, int64(1+more)*c.pageSize)
	if _, err := c.file.ReadAt(page, int64(id)*c.pageSize); err != nil {
		return nil, fmt.Errorf("read page %d: %w", id, err)
	}
	return page, nil
}

func (c *pageCheck) branch(page []byte, depth int) error {
	id, count := native.Uint64(page), int(native.Uint16(page[10:]))
	if count == 0 {
		return fmt.Errorf("page %d leads nowhere", id)
	}
	var last []byte
	for i := range count {
		e, err := element(page, i)
		if err != nil {
			return fmt.Errorf("page %d: %w", id, err)
		}
		key, err := part(page, e, native.Uint32(page[e:]), native.Uint32(page[e+4:]))
		if err != nil {
			return fmt.Errorf("page %d: %w", id, err)
		}
		if i > 0 && bytes.Compare(last, key) >= 0 {
			return fmt.Errorf("page %d is not in order", id)
		}
		last = key
		if err := c.tree(native.Uint64(page[e+8:]), depth+1); err != nil {
			return err
		}
	}
	return nil
}

func (c *pageCheck) leaf(page []byte, depth int) error {
	id, count := native.Uint64(page), int(native.Uint16(page[10:]))
	var last []byte
	for i := range count {
		e, err := element(page, i)
		if err != nil {
			return fmt.Errorf("page %d: %w", id, err)
		}
		flags, at, keySize, valueSize := native.Uint32(page[e:]), native.Uint32(page[e+4:]), native.Uint32(page[e+8:]), native.Uint32(page[e+12:])
		both, err := part(page, e, at, keySize, valueSize)
		if err != nil {
			return fmt.Errorf("page %d: %w", id, err)
		}
		key, value := both[:keySize], both[keySize:]
		if i > 0 && bytes.Compare(last, key) >= 0 {
			return fmt.Errorf("page %d is not in order", id)
		}
		last = key
		switch flags {
		case 0:
		case isBucket:
			if err := c.bucket(value, depth); err != nil {
				return err
			}
		default:
			return fmt.Errorf("page %d: an entry has the flags %#x", id, flags)
		}
	}
	return nil
}

// bucket looks at a bucket's entry: where its tree begins or, for a small one, a
// page in place of the tree.
func (c *pageCheck) bucket(value []byte, depth int) error {
	if len(value) < bucketHead {
		return fmt.Errorf("a bucket has %d bytes", len(value))
	}
	if root := native.Uint64(value); root != 0 {
		return c.tree(root, depth+1)
	}
	page := value[bucketHead:]
	if len(page) < pageHeader || native.Uint64(page) != 0 || native.Uint16(page[8:]) != leafPage || depth > maxDepth {
		return errors.New("a bucket's own page is damaged")
	}
	return c.leaf(page, depth+1)
}

// element returns where in a page its element i is.
func element(page []byte, i int) (int, error) {
	at := pageHeader + 16*i
	if at+16 > len(page) {
		return 0, fmt.Errorf("element %d is beyond its end", i)
	}
	return at, nil
}

// part returns what an element points at, relative to itself.
func part(page []byte, element int, at uint32, sizes ...uint32) ([]byte, error) {
	from := uint64(element) + uint64(at)
	to := from
	for _, n := range sizes {
		to += uint64(n)
	}
	if at < pageHeader || to > uint64(len(page)) {
		return nil, fmt.Errorf("an element points to %d, beyond its end", to)
	}
	return page[from:to], nil
}
