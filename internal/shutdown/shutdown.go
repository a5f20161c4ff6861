// Package shutdown turns SIGINT, SIGTERM and SIGHUP into the end of a context, and
// a second one into the end of the program.
package shutdown

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

// sameSignal is how soon after the first a signal is the first told twice: timeout(1)
// signals its child and then its group, a terminal and a supervisor may each send one.
const sameSignal = 100 * time.Millisecond

// Context returns a context that ends with the first SIGINT, SIGTERM or SIGHUP
// (the terminal was closed). The second calls exit with 128 plus the signal's
// number, as shells report it. Signals that were ignored from the start stay so:
// nohup asks for that, as does a shell for what it runs in the background. stop
// ends the watch over signals.
//
// From then on a write to a pipe that nobody reads fails with EPIPE, where it would
// have ended the program before it could clear up.
func Context(parent context.Context, exit func(code int)) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancel(parent)
	signal.Ignore(syscall.SIGPIPE)
	signals := make(chan os.Signal, 2)
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP} {
		if !signal.Ignored(s) {
			signal.Notify(signals, s)
		}
	}
	done := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		var (
			first os.Signal
			at    time.Time
		)
		for {
			select {
			case s := <-signals:
				if first == nil {
					first, at = s, time.Now()
					cancel()
					continue
				}
				if s == first && time.Since(at) < sameSignal {
					continue
				}
				code := 128
				if n, ok := s.(syscall.Signal); ok {
					code += int(n)
				}
				exit(code)
				return
			case <-done:
				return
			}
		}
	}()
	return ctx, sync.OnceFunc(func() {
		signal.Stop(signals)
		close(done)
		<-ended
		cancel()
	})
}
