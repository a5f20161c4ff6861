package serve

import (
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"errors"
)

// spareConnections are allowed beyond one a watcher.
const spareConnections = 128

// bounded is a listener that closes connections at once when there are too many, and
// goes on when descriptors run out.
type bounded struct {
	net.Listener
	gate    *gate
	buffer  int // to set as the kernel's send buffer, in bytes
	metrics *metrics
	log     *slog.Logger
	told    atomic.Bool // of a full house
	done    chan struct{}
	once    sync.Once
}

func (s *Server) bound(l net.Listener) *bounded {
	return &bounded{
		Listener: l, gate: s.connections, buffer: s.limits.WatcherBuffer,
		metrics: s.metrics, log: s.log, done: make(chan struct{}),
	}
}

func (b *bounded) Accept() (net.Conn, error) {
	const most = time.Second
	pause := 5 * time.Millisecond
	for {
		conn, err := b.Listener.Accept()
		switch {
		case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE), errors.Is(err, syscall.ECONNABORTED):
			b.log.Warn("can't take a connection", "err", err, "trying again in", pause)
			select {
			case <-time.After(pause):
			case <-b.done:
				return nil, net.ErrClosed
			}
			pause = min(2*pause, most)
			continue
		case err != nil:
			return nil, err
		}
		if err := b.gate.enter(); err != nil {
			b.turnedAway(err)
			conn.Close()
			continue
		}
		// It may fail only for a connection that is gone, or of a kind that has none.
		if c, ok := conn.(interface{ SetWriteBuffer(int) error }); ok {
			_ = c.SetWriteBuffer(b.buffer)
		}
		b.metrics.connections.Inc()
		return &countedConn{Conn: conn, left: func() {
			b.metrics.connections.Dec()
			b.gate.leave()
		}}, nil
	}
}

func (b *bounded) turnedAway(why error) {
	if !errors.Is(why, errFull) {
		return
	}
	b.metrics.rejected.WithLabelValues(limitConnections).Inc()
	if !b.told.Swap(true) {
		b.log.Warn("too many connections: further ones are closed at once; close unused ones, or raise --max-watchers",
			"connections", b.gate.most)
	}
}

func (b *bounded) Close() error {
	b.once.Do(func() { close(b.done) })
	return b.Listener.Close()
}

// countedConn calls left once, when it is closed.
type countedConn struct {
	net.Conn
	once sync.Once
	left func()
}

func (c *countedConn) Close() error {
	err := c.Conn.Close()
	c.once.Do(c.left)
	return err
}
