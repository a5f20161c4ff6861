package view

import (
	"context"
	"errors"
	"syscall"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/client"
)

// drainTime is how long the end waits for a reader that takes nothing.
const drainTime = 500 * time.Millisecond

// show deals with updates.
type show interface {
	// take takes one in.
	take(client.Update) error
	// rest is called when no further one is at hand.
	rest() error
	// tick is called every second.
	tick() error
	// end is called at the end.
	end() error
}

// follow has a show deal with a stream until ctx ends or nobody reads what it writes,
// neither of which is an error. A write that hangs then is left to the end of the
// process.
func follow(ctx context.Context, c *client.Client, o client.WatchOptions, s show) error {
	done := make(chan error, 1)
	go func() { done <- run(ctx, c, o, s) }()
	var err error
	select {
	case err = <-done:
	case <-ctx.Done():
		select {
		case err = <-done:
		case <-time.After(drainTime):
		}
	}
	if errors.Is(err, syscall.EPIPE) || ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// run lets the show deal with a stream that is read by a goroutine of its own.
func run(ctx context.Context, c *client.Client, o client.WatchOptions, s show) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	// Some are taken ahead, so that under load not each has a write of its own.
	updates := make(chan client.Update, 64)
	var ended error
	go func() {
		defer close(updates)
		for u, err := range c.Events(ctx, o) {
			if err != nil {
				ended = err
				return
			}
			select {
			case updates <- u:
			case <-ctx.Done():
				ended = context.Cause(ctx)
				return
			}
		}
	}()
	defer func() {
		cancel()
		for range updates {
		}
		err = errors.Join(err, s.end())
	}()

	second := time.NewTicker(time.Second)
	defer second.Stop()
	for {
		select {
		case u, ok := <-updates:
			if !ok {
				return ended
			}
			if err := s.take(u); err != nil {
				return err
			}
			if len(updates) > 0 {
				continue
			}
			if err := s.rest(); err != nil {
				return err
			}
		case <-second.C:
			if err := s.tick(); err != nil {
				return err
			}
		}
	}
}
