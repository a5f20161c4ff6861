package serve

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"
)

// preface is what only a connection of HTTP/2, and so of gRPC, begins with. Four
// bytes will do: no method of HTTP/1 is called PRI (RFC 9113, 3.4 and 11.6).
const preface = "PRI "

// sniffer hands the connections of a listener to a side for gRPC or one for HTTP/1,
// by how they begin.
type sniffer struct {
	listener net.Listener
	patience time.Duration // for the first bytes
	// grpc and http are the sides. Who serves one closes it.
	grpc, http *side
}

func newSniffer(l net.Listener, patience time.Duration) *sniffer {
	return &sniffer{listener: l, patience: patience, grpc: newSide(l.Addr()), http: newSide(l.Addr())}
}

// run accepts until the listener is closed or ctx ends, and returns when every
// connection is handed on or closed.
func (s *sniffer) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var pending sync.WaitGroup
	defer pending.Wait()
	defer cancel()
	// Waits for the other close below, too: what it removes is gone when run returns.
	defer func() { _ = s.listener.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = s.listener.Close() })
	defer stop()
	for {
		conn, err := s.listener.Accept()
		switch {
		case err == nil:
			pending.Go(func() { s.sort(ctx, conn) })
		case errors.Is(err, net.ErrClosed):
			return nil
		default:
			return err
		}
	}
}

// sort reads the first bytes of a connection and hands it on.
func (s *sniffer) sort(ctx context.Context, conn net.Conn) {
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	head, err := s.head(conn)
	if !stop() || err != nil {
		conn.Close()
		return
	}
	to := s.http
	if string(head) == preface {
		to = s.grpc
	}
	to.hand(ctx, &begunConn{Conn: conn, head: head})
}

// head reads until it is clear whether the connection begins with the preface.
func (s *sniffer) head(conn net.Conn) ([]byte, error) {
	if err := conn.SetReadDeadline(time.Now().Add(s.patience)); err != nil {
		return nil, err
	}
	head := make([]byte, 0, len(preface))
	for len(head) < len(preface) && string(head) == preface[:len(head)] {
		n, err := conn.Read(head[len(head):cap(head)])
		head = head[:len(head)+n]
		if err != nil {
			return nil, err
		}
	}
	return head, conn.SetReadDeadline(time.Time{})
}

// begunConn is a connection whose first bytes were read.
type begunConn struct {
	net.Conn
	head []byte // what is still to be read of them
}

func (c *begunConn) Read(b []byte) (int, error) {
	if len(c.head) == 0 || len(b) == 0 {
		return c.Conn.Read(b)
	}
	n := copy(b, c.head)
	c.head = c.head[n:]
	return n, nil
}

// side is a listener that gets connections handed.
type side struct {
	addr  net.Addr
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newSide(addr net.Addr) *side {
	return &side{addr: addr, conns: make(chan net.Conn), done: make(chan struct{})}
}

// hand passes a connection on, or closes it when the side or ctx ends.
func (s *side) hand(ctx context.Context, conn net.Conn) {
	select {
	case s.conns <- conn:
	case <-s.done:
		conn.Close()
	case <-ctx.Done():
		conn.Close()
	}
}

func (s *side) Accept() (net.Conn, error) {
	select {
	case conn := <-s.conns:
		return conn, nil
	case <-s.done:
		return nil, net.ErrClosed
	}
}

func (s *side) Close() error {
	s.once.Do(func() { close(s.done) })
	return nil
}

func (s *side) Addr() net.Addr { return s.addr }
