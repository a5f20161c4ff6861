package state

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/merge"
	bolt "go.etcd.io/bbolt"
)

const (
	fileName = "state.db"
	newName  = fileName + ".new"
	lockName = "lock"

	lockTimeout = time.Second
	// batch is how many entries go into one transaction when all is written: a
	// transaction is held in memory.
	batch = 512
	// slack is how much of a file may be unused before it is worth writing anew.
	slack = 16 << 20
)

// limits bound the journal that is kept.
type limits struct {
	events int
	bytes  int64
	age    time.Duration
}

// file is the state file while this process writes to it. It is of one goroutine.
type file struct {
	dir    string
	limits limits
	now    func() time.Time

	db   *bolt.DB // nil until all was written once, and after an error
	head head     // as it is in the file
}

func (f *file) path() string { return filepath.Join(f.dir, fileName) }

// rewrite writes all of a state into a new file and puts that in place of the one
// there. On an error the one before stays as it is.
func (f *file) rewrite(s *merge.State) (err error) {
	f.close()
	path := filepath.Join(f.dir, newName)
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	defer func() {
		if err != nil {
			f.close()
			_ = os.Remove(path)
		}
	}()
	// Nobody looks at the new file before it is complete and on disk, so it is
	// synced but once.
	if f.db, err = bolt.Open(path, 0o600, &bolt.Options{Timeout: lockTimeout, NoSync: true, NoGrowSync: true}); err != nil {
		return fmt.Errorf("create %s: %w", path, err)
	}
	f.db.AllocSize = 1 << 20
	f.head = head{}
	if err := f.writeAll(s); err != nil {
		return err
	}
	f.db.NoSync, f.db.NoGrowSync = false, false
	if err := f.db.Sync(); err != nil {
		return fmt.Errorf("sync %s: %w", path, err)
	}
	if err := os.Rename(path, f.path()); err != nil {
		return err
	}
	return syncDir(f.dir)
}

// writeAll fills an empty file.
func (f *file) writeAll(s *merge.State) error {
	rest := merge.Delta{
		Epochs: s.Epochs, Events: s.Events, Changed: s.Items,
		Removed: s.Removed, Remembered: len(s.Removed),
	}
	if n := len(s.Events); n > 0 {
		rest.Oldest = s.Events[0].Sequence
		rest.Events = rest.Events[max(0, n-f.limits.events):]
	}
	for first := true; first || len(rest.Events)+len(rest.Changed) > 0; first = false {
		part := rest
		if !first {
			part.Removed = nil
		}
		part.Events, rest.Events = cut(rest.Events)
		part.Changed, rest.Changed = cut(rest.Changed)
		if err := f.update(&part, first); err != nil {
			return err
		}
	}
	return nil
}

func cut[T any](all []T) (part, rest []T) {
	n := min(len(all), batch)
	return all[:n], all[n:]
}

// append writes what has become of the state in the file. After an error all must
// be written anew.
func (f *file) append(d *merge.Delta) error {
	if f.db == nil {
		return errors.New("there is no file to add to")
	}
	return f.update(d, false)
}

// update is one transaction.
func (f *file) update(d *merge.Delta, empty bool) error {
	next := f.head
	err := guarded(func() error {
		return f.db.Update(func(tx *bolt.Tx) error {
			if empty {
				if err := layOut(tx); err != nil {
					return err
				}
			}
			next.Epochs = d.Epochs
			if err := f.writeJournal(tx, d, &next); err != nil {
				return err
			}
			if err := writeItems(tx, d, &next); err != nil {
				return err
			}
			if err := writeRemoved(tx, d, &next); err != nil {
				return err
			}
			value, err := next.encode()
			if err != nil {
				return err
			}
			return tx.Bucket(bucketMeta).Put(keyHead, value)
		})
	})
	var panicked *unusable
	switch {
	case err == nil:
		f.head = next
	case errors.As(err, &panicked):
		// bbolt's locks may be held for ever, and closing would wait for them.
		f.db = nil
	}
	return err
}

// layOut makes the buckets of a new file.
func layOut(tx *bolt.Tx) error {
	for _, name := range [][]byte{bucketMeta, bucketJournal, bucketItems, bucketRemoved} {
		if _, err := tx.CreateBucket(name); err != nil {
			return err
		}
	}
	meta := tx.Bucket(bucketMeta)
	if err := meta.Put(keyMagic, []byte(magic)); err != nil {
		return err
	}
	return meta.Put(keyFormat, []byte(strconv.Itoa(format)))
}

func (f *file) writeJournal(tx *bolt.Tx, d *merge.Delta, h *head) error {
	t := table{tx.Bucket(bucketJournal), &h.Journal}
	t.FillPercent = 1 // keys only ever grow
	for _, e := range d.Events {
		value, err := encodeEvent(e)
		if err != nil {
			return err
		}
		if err := t.put(number(e.Sequence), value); err != nil {
			return err
		}
	}
	oldest := f.now().Add(-f.limits.age)
	return t.trim(func(key, value []byte) bool {
		return binary.BigEndian.Uint64(key) < d.Oldest ||
			t.total.N > f.limits.events || t.total.Bytes > f.limits.bytes ||
			eventTime(value).Before(oldest)
	})
}

func writeItems(tx *bolt.Tx, d *merge.Delta, h *head) error {
	t := table{tx.Bucket(bucketItems), &h.Items}
	for _, key := range d.Gone {
		if err := t.remove(itemKey(key)); err != nil {
			return err
		}
	}
	for i := range d.Changed {
		value, err := encodeItem(&d.Changed[i])
		if err != nil {
			return err
		}
		if err := t.put(itemKey(d.Changed[i].Key()), value); err != nil {
			return err
		}
	}
	return nil
}

func writeRemoved(tx *bolt.Tx, d *merge.Delta, h *head) error {
	t := table{tx.Bucket(bucketRemoved), &h.Removed}
	t.FillPercent = 1
	for _, stone := range d.Removed {
		n, err := t.NextSequence()
		if err != nil {
			return err
		}
		if err := t.put(number(n), stone[:]); err != nil {
			return err
		}
	}
	return t.trim(func(_, _ []byte) bool { return t.total.N > d.Remembered })
}

// trim removes entries from the front for as long as tooMany says so.
func (t table) trim(tooMany func(key, value []byte) bool) error {
	c := t.Cursor()
	for key, value := c.First(); key != nil && tooMany(key, value); key, value = c.First() {
		if err := t.remove(key); err != nil {
			return err
		}
	}
	return nil
}

// size is how large the file is on disk, and bloated whether writing it anew would
// make it much smaller.
func (f *file) size() (size int64, bloated bool) {
	if f.db == nil {
		info, err := os.Stat(f.path())
		if err != nil {
			return 0, false
		}
		return info.Size(), false
	}
	_ = f.db.View(func(tx *bolt.Tx) error {
		size = tx.Size()
		return nil
	})
	unused := int64(f.db.Stats().FreePageN+f.db.Stats().PendingPageN) * int64(f.db.Info().PageSize)
	return size, unused > slack && unused > size/2
}

// close may be called more than once.
func (f *file) close() {
	if f.db == nil {
		return
	}
	_ = f.db.Close() // all was synced before
	f.db = nil
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
