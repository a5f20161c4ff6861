package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"syscall"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/internal/output"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/merge"
)

// drainTime is how long the end waits for a reader that takes no events.
const drainTime = 500 * time.Millisecond

// errReaderGone says that who read the events has closed the pipe, as head does
// when it has enough. It ends the run, and is no failure.
var errReaderGone = errors.New("the reader of the events is gone")

// writing hands events to the output.
type writing struct {
	watcher *merge.Watcher
	out     output.Writer
	log     *slog.Logger
}

// run writes until the generator has ended and all that it published is written.
// A reader that takes nothing does not hold up the end for longer than drainTime;
// the write that hangs is then left to the end of the process.
func (w *writing) run(ended <-chan struct{}) error {
	written := make(chan error, 1)
	go func() { written <- w.write() }()
	select {
	case err := <-written:
		return err
	case <-ended:
	}
	select {
	case err := <-written:
		return err
	case <-time.After(drainTime):
		return fmt.Errorf("the output takes no more: events from %s on may not be written", w.watcher.Token())
	}
}

func (w *writing) write() error {
	// No context: what has been published is written before the end, which the
	// generator's end announces.
	ctx := context.Background()
	for {
		if w.watcher.Lag() == 0 {
			if err := w.out.Flush(); err != nil {
				return writeError(err)
			}
		}
		item, err := w.watcher.Next(ctx)
		switch {
		case errors.Is(err, merge.ErrClosed):
			return writeError(w.out.Flush())
		case err != nil:
			return err
		case item.Kind == merge.ItemEvent:
			if err := w.out.Write(item.Event); err != nil {
				return writeError(err)
			}
		case item.Kind == merge.ItemExpired:
			w.log.Error("the output takes events too slowly, and some were not written: read faster",
				"last_written", item.Token)
		}
	}
}

func writeError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.EPIPE):
		return errReaderGone
	default:
		return fmt.Errorf("write events: %w", err)
	}
}
