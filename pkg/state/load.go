package state

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/merge"
	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// unusable is why a file that can be read is not used, and the word by which it is
// moved aside.
type unusable struct {
	kind string // corrupt, foreign or newer
	err  error
}

func (u *unusable) Error() string { return u.err.Error() }
func (u *unusable) Unwrap() error { return u.err }

func corrupt(format string, args ...any) error {
	return &unusable{"corrupt", fmt.Errorf(format, args...)}
}

// load reads a file. The error is an *unusable where it is the file's content that
// is no good.
func load(path string, keep time.Duration, now time.Time) (*merge.State, error) {
	if err := checkFile(path); err != nil {
		return nil, err
	}
	var s *merge.State
	err := guarded(func() error {
		db, err := bolt.Open(path, 0, &bolt.Options{ReadOnly: true, Timeout: lockTimeout})
		if errors.Is(err, bolterrors.ErrTimeout) {
			return fmt.Errorf("%s: %w", path, ErrInUse)
		}
		if err != nil {
			return corrupt("open: %w", err)
		}
		defer func() { _ = db.Close() }()
		return db.View(func(tx *bolt.Tx) error {
			s, err = read(tx, keep, now)
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	if err := s.Check(); err != nil {
		return nil, corrupt("%w", err)
	}
	return s, nil
}

// checkFile looks at the file without bbolt.
func checkFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is no regular file", path)
	}
	switch err := checkPages(f, info.Size()); {
	case errors.Is(err, errNotBolt):
		return &unusable{"foreign", err}
	case err != nil:
		return corrupt("%w", err)
	}
	return nil
}

// guarded turns a panic, and access to memory that a file does not reach to, into
// an error.
func guarded(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = corrupt("%v", p)
		}
	}()
	return f()
}

func read(tx *bolt.Tx, keep time.Duration, now time.Time) (*merge.State, error) {
	meta := tx.Bucket(bucketMeta)
	if meta == nil || string(meta.Get(keyMagic)) != magic {
		return nil, &unusable{"foreign", errors.New("it is another program's")}
	}
	written, err := strconv.Atoi(string(meta.Get(keyFormat)))
	switch {
	case err != nil || written < 1:
		return nil, corrupt("its format is %q", meta.Get(keyFormat))
	case written > format:
		return nil, &unusable{"newer", fmt.Errorf("it has format %d, this version knows %d", written, format)}
	}
	var want head
	if err := want.decode(meta.Get(keyHead)); err != nil {
		return nil, corrupt("%w", err)
	}
	s := &merge.State{Epochs: want.Epochs}
	got := head{Epochs: want.Epochs}
	share := make(sharing)
	each := func(name []byte, t *total, f func(key, value []byte) error) error {
		b := tx.Bucket(name)
		if b == nil {
			return corrupt("it has no %s", name)
		}
		c := b.Cursor()
		for key, value := c.First(); key != nil; key, value = c.Next() {
			t.add(key, value)
			if err := f(key, value); err != nil {
				return corrupt("%s: %w", name, err)
			}
		}
		return nil
	}
	if err := each(bucketJournal, &got.Journal, func(_, value []byte) error {
		// What is too old is at the front.
		if len(s.Events) == 0 && now.Sub(eventTime(value)) > keep {
			return nil
		}
		e, err := decodeEvent(value)
		if err == nil {
			share.event(e)
			s.Events = append(s.Events, e)
		}
		return err
	}); err != nil {
		return nil, err
	}
	if err := each(bucketItems, &got.Items, func(_, value []byte) error {
		item, err := decodeItem(value)
		share.item(&item)
		s.Items = append(s.Items, item)
		return err
	}); err != nil {
		return nil, err
	}
	if err := each(bucketRemoved, &got.Removed, func(_, value []byte) error {
		if len(value) != len(merge.Tombstone{}) {
			return fmt.Errorf("an entry has %d bytes", len(value))
		}
		s.Removed = append(s.Removed, merge.Tombstone(value))
		return nil
	}); err != nil {
		return nil, err
	}
	if got.Journal != want.Journal || got.Items != want.Items || got.Removed != want.Removed {
		return nil, corrupt("it does not add up: %+v, %+v, %+v are there, %+v, %+v, %+v were written",
			got.Journal, got.Items, got.Removed, want.Journal, want.Items, want.Removed)
	}
	return s, nil
}

// sharing gives equal texts and equal sandboxes one place in memory, as they had
// before they were written: of a pod there are many events, and its labels may be
// large.
type sharing map[any]any

func (m sharing) text(s *string) {
	if known, ok := m[*s]; ok {
		*s = known.(string)
		return
	}
	m[*s] = *s
}

func (m sharing) event(e *event.Event) {
	m.text(&e.Epoch)
	m.pod(&e.Pod)
	m.container(e.Container)
	m.sandbox(&e.Sandbox)
}

func (m sharing) item(it *merge.ItemState) {
	m.pod(&it.Pod)
	m.container(it.Container)
	m.sandbox(&it.Sandbox)
}

func (m sharing) pod(p *event.Pod) {
	m.text(&p.UID)
	m.text(&p.Namespace)
	m.text(&p.Name)
}

func (m sharing) container(c *event.Container) {
	if c != nil {
		m.text(&c.ID)
		m.text(&c.Name)
		m.text(&c.Image)
	}
}

type sandboxID string

func (m sharing) sandbox(s **event.Sandbox) {
	if *s == nil {
		return
	}
	known, _ := m[sandboxID((*s).ID)].(*event.Sandbox)
	if known != nil && known.Attempt == (*s).Attempt &&
		maps.Equal(known.Labels, (*s).Labels) && maps.Equal(known.Annotations, (*s).Annotations) {
		*s = known
		return
	}
	m[sandboxID((*s).ID)] = *s
}
