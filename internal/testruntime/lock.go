package testruntime

import (
	"context"
	"fmt"
	"os"
	"time"
)

// lockFile waits for the exclusive lock on the file name, which is made when it
// does not exist. The lock ends with unlock or with the process.
func lockFile(ctx context.Context, name string) (unlock func(), err error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	for {
		ok, err := tryLock(f)
		if err != nil {
			f.Close()
			return nil, fmt.Errorf("lock %s: %w", name, err)
		}
		if ok {
			return func() { f.Close() }, nil
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			f.Close()
			return nil, fmt.Errorf("wait for the lock %s: %w", name, err)
		}
	}
}

// pause waits for d, or less when ctx ends, and then returns its error.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// poll calls done every now and then until it returns nil or ctx ends; then the
// error says why of both.
func poll(ctx context.Context, every time.Duration, done func() error) error {
	for {
		err := done()
		if err == nil {
			return nil
		}
		if ctxErr := pause(ctx, every); ctxErr != nil {
			return fmt.Errorf("%w (%w)", err, ctxErr)
		}
	}
}
