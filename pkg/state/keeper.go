package state

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/merge"
)

// The defaults of [Options].
const (
	DefaultJournalBytes = 32 << 20
	DefaultJournalAge   = 24 * time.Hour
	DefaultCloseTimeout = 10 * time.Second
)

// How long to wait before all is written anew after an error: twice as long each
// time.
const (
	retryFirst = time.Second
	retryLast  = time.Minute
)

// Options are the settings of a [Keeper]. Only Dir is required.
type Options struct {
	// Dir is where the state is kept. It is made, for this user alone, if it is not
	// there. One process at a time can use it.
	Dir string
	// JournalEvents, JournalBytes and JournalAge bound the events kept, beside what
	// bounds the log's journal: the one that leaves the fewest counts. JournalBytes is
	// as they are written. 0: [merge.DefaultJournalEvents], [DefaultJournalBytes],
	// [DefaultJournalAge].
	JournalEvents int
	JournalBytes  int64
	JournalAge    time.Duration
	// CloseTimeout is how long the last write may take. 0: [DefaultCloseTimeout].
	CloseTimeout time.Duration
	// OnWrite is told of each write. It must not block.
	OnWrite func(took time.Duration, err error)
	// Now gives the time that ages are measured by. Nil: [time.Now].
	Now func() time.Time
	Log *slog.Logger
}

// Keeper keeps the state of one log in a directory. Problem and Size may be called
// from any goroutine.
type Keeper struct {
	opts     Options
	lock     *os.File
	restored *merge.State
	file     storage

	problem atomic.Pointer[string]
	size    atomic.Int64
}

// storage is where the state goes: a file, or in tests one that fails.
type storage interface {
	rewrite(*merge.State) error
	append(*merge.Delta) error
	size() (size int64, bloated bool)
	close()
}

// Open takes the directory for this process and reads what is kept there. A file
// that can't be used is moved aside and logged, and is no error. The error wraps
// [ErrInUse] when another process has the directory, and otherwise says what is
// wrong with the directory. Either Run or Close must follow.
func Open(o Options) (*Keeper, error) {
	if o.Dir == "" {
		return nil, errors.New("state: Options.Dir is required")
	}
	if o.JournalEvents < 0 || o.JournalBytes < 0 || o.JournalAge < 0 || o.CloseTimeout < 0 {
		return nil, fmt.Errorf("state: JournalEvents %d, JournalBytes %d, JournalAge %s, CloseTimeout %s: none may be negative",
			o.JournalEvents, o.JournalBytes, o.JournalAge, o.CloseTimeout)
	}
	if o.JournalEvents == 0 {
		o.JournalEvents = merge.DefaultJournalEvents
	}
	if o.JournalBytes == 0 {
		o.JournalBytes = DefaultJournalBytes
	}
	if o.JournalAge == 0 {
		o.JournalAge = DefaultJournalAge
	}
	if o.CloseTimeout == 0 {
		o.CloseTimeout = DefaultCloseTimeout
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.OnWrite == nil {
		o.OnWrite = func(time.Duration, error) {}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	lock, err := lockDir(o.Dir)
	if err != nil {
		return nil, err
	}
	f := &file{dir: o.Dir, limits: limits{o.JournalEvents, o.JournalBytes, o.JournalAge}, now: o.Now}
	k := &Keeper{opts: o, lock: lock, file: f}
	if k.restored, err = k.load(f.path()); err != nil {
		lock.Close()
		return nil, err
	}
	k.measure()
	return k, nil
}

// load reads the file, or moves it aside; nil when there is nothing to go on from.
func (k *Keeper) load(path string) (*merge.State, error) {
	// What is left of a write that was never completed.
	if err := os.Remove(filepath.Join(k.opts.Dir, newName)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("state directory: %w", err)
	}
	s, err := load(path, k.opts.JournalAge, k.opts.Now())
	var bad *unusable
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, nil
	case errors.As(err, &bad):
		to, moveErr := moveAside(path, bad.kind, k.opts.Now())
		if moveErr != nil {
			return nil, fmt.Errorf("the state file can't be used (%w) and can't be moved aside: %w", err, moveErr)
		}
		k.opts.Log.Warn("the state file can't be used and was moved aside: starting afresh, watchers' tokens of before expire",
			"why", bad.kind, "file", path, "moved_to", to, "err", err)
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read the state: %w", err)
	}
	return s, nil
}

// Restored is what was kept, to give to [merge.Options]; nil where nothing was, and
// once Run was called.
func (k *Keeper) Restored() *merge.State { return k.restored }

// Problem says why the state is not kept at the moment, and what to do; empty while
// it is.
func (k *Keeper) Problem() string {
	if p := k.problem.Load(); p != nil {
		return *p
	}
	return ""
}

// Size is how many bytes the file has.
func (k *Keeper) Size() int64 { return k.size.Load() }

// Run writes down what the log holds and what becomes of it, until ctx ends; then,
// once more, all that is left, for which the log must have been published to for the
// last time. The directory is free afterwards. The error is that of the last write,
// or [merge.ErrRecorded]; one in between is retried, and shown by Problem.
func (k *Keeper) Run(ctx context.Context, log *merge.Log) error {
	rec, err := log.Record()
	if err != nil {
		return errors.Join(err, k.Close())
	}
	k.restored = nil // else its events would stay in memory for ever
	done := make(chan error, 1)
	go func() {
		err := k.write(ctx, rec)
		rec.Close()
		done <- errors.Join(err, k.Close())
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	// A disk that hangs can't be waited for, nor can the write be taken back: the
	// goroutine ends when the kernel lets go of it.
	timer := time.NewTimer(k.opts.CloseTimeout)
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-timer.C:
		return fmt.Errorf("the last write of the state to %s takes longer than %s", k.opts.Dir, k.opts.CloseTimeout)
	}
}

// Close frees the directory without writing. It is for a keeper that is not run.
func (k *Keeper) Close() error {
	k.file.close()
	return k.lock.Close()
}

// write writes until ctx ends, and then once more.
func (k *Keeper) write(ctx context.Context, rec *merge.Recorder) error {
	wait := retryFirst
	for {
		last := ctx.Err() != nil
		err := k.writeOnce(rec)
		if last {
			return err
		}
		if err == nil {
			wait = retryFirst
			select {
			case <-rec.Ready():
			case <-ctx.Done():
			}
			continue
		}
		select {
		case <-time.After(wait):
			wait = min(2*wait, retryLast)
		case <-ctx.Done():
		}
	}
}

// writeOnce writes what is new; or all, where that is not known, was not written, or
// makes the file much smaller.
func (k *Keeper) writeOnce(rec *merge.Recorder) error {
	began := time.Now()
	var err error
	d, ok := rec.Drain()
	if ok {
		if err = k.file.append(&d); err == nil {
			ok = !k.measure()
		}
	}
	if !ok {
		s := rec.Export()
		err = k.file.rewrite(&s)
		k.measure()
	}
	k.opts.OnWrite(time.Since(began), err)
	if err != nil {
		rec.Discard()
	}
	k.report(err)
	return err
}

func (k *Keeper) measure() (bloated bool) {
	size, bloated := k.file.size()
	k.size.Store(size)
	return bloated
}

// report tells once that the state is not kept, and once that it is again.
func (k *Keeper) report(err error) {
	before := k.problem.Load()
	if err == nil {
		if before != nil {
			k.problem.Store(nil)
			k.opts.Log.Info("the state is kept again", "dir", k.opts.Dir)
		}
		return
	}
	text := fmt.Sprintf("the state can't be written to %s: %v; %s", k.opts.Dir, err, advice(err))
	k.problem.Store(&text)
	if before == nil {
		k.opts.Log.Error("the state is not kept any more, and lives in memory only: what happens from now on is lost at a restart; "+
			"it is tried again all the time", "dir", k.opts.Dir, "err", err, "advice", advice(err))
	}
}

// advice is what a person can do about a write that failed.
func advice(err error) string {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return "free space there, twice what the state takes"
	case errors.Is(err, syscall.EROFS):
		return "mount it writable"
	case errors.Is(err, os.ErrPermission):
		return "make the directory writable by this process"
	default:
		return "see to the disk, or use another directory"
	}
}
