package serve

import (
	"bufio"
	"context"
	"crypto/x509"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/merge"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/relist"
)

// inMemory is a server with TLS whose connections are pipes, so that it and its client
// live by a bubble's clock: what is about time takes none.
type inMemory struct {
	*running
	client *http.Transport
	// stall has the client read its connections no more.
	stall func()
}

// startInMemory serves b; the client speaks HTTP/2 or else HTTP/1.1.
func startInMemory(t *testing.T, b *backend, http2 bool) *inMemory {
	t.Helper()
	server, clients := newAuthority(t, "server"), newAuthority(t, "clients")
	certs, err := newCertificates(newSecret(t, server, clients).files(), nil)
	if err != nil {
		t.Fatal(err)
	}
	l := newSide(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	m := &inMemory{running: serveOn(t, b, Options{}, nil, Listeners{HTTP: &HTTPListener{l, certs.config()}})}
	stalled := make(chan struct{})
	m.stall = sync.OnceFunc(func() { close(stalled) })
	cert, key := clients.sign("agent", x509.ExtKeyUsageClientAuth)
	m.client = &http.Transport{
		TLSClientConfig: clientConfig(t, server, cert, key),
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			ours, theirs := net.Pipe()
			l.hand(ctx, theirs)
			return &stallConn{Conn: ours, stalled: stalled, closed: make(chan struct{})}, nil
		},
		ForceAttemptHTTP2: http2,
		// Room for what a client does not read, which a test has to fill.
		HTTP2: &http.HTTP2Config{MaxReceiveBufferPerStream: 64 << 10},
	}
	t.Cleanup(m.client.CloseIdleConnections)
	return m
}

// stallConn is a connection whose peer can stop to read.
type stallConn struct {
	net.Conn
	stalled <-chan struct{}
	once    sync.Once
	closed  chan struct{}
}

func (c *stallConn) Read(b []byte) (int, error) {
	select {
	case <-c.stalled:
		<-c.closed
		return 0, net.ErrClosed
	default:
		return c.Conn.Read(b)
	}
}

func (c *stallConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// watch begins to follow the events. What it does not read stays unread.
func (m *inMemory) watch(header ...string) *bufio.Reader {
	m.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	m.t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://127.0.0.1/v1/events", nil)
	if err != nil {
		m.t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := m.client.RoundTrip(req)
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() { resp.Body.Close() })
	if resp.StatusCode != http.StatusOK || resp.ProtoAtLeast(2, 0) != m.client.ForceAttemptHTTP2 {
		m.t.Fatalf("%s %s", resp.Proto, resp.Status)
	}
	return bufio.NewReader(resp.Body)
}

// until reads lines until each of some texts was in one, in that order.
func until(t *testing.T, r *bufio.Reader, texts ...string) {
	t.Helper()
	for _, text := range texts {
		for line := ""; !strings.Contains(line, text); {
			var err error
			if line, err = r.ReadString('\n'); err != nil {
				t.Errorf("in vain waited for %s: %v", text, err)
				return
			}
		}
	}
}

// bothHTTP runs a test in a bubble for each version of HTTP.
func bothHTTP(t *testing.T, test func(t *testing.T, http2 bool)) {
	for name, http2 := range map[string]bool{"1.1": false, "2": true} {
		t.Run("HTTP/"+name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, http2) })
		})
	}
}

// TestSilence has nothing happen for longer than any write may take: who waits for
// events is not to be cut off for that.
func TestSilence(t *testing.T) {
	bothHTTP(t, func(t *testing.T, http2 bool) {
		b := newBackend(t, merge.Options{Epoch: "e"})
		b.pods(1)
		m := startInMemory(t, b, http2)
		var readers sync.WaitGroup
		for _, header := range [][]string{nil, {"Accept", typeSSE, "Last-Event-ID", "e-1"}} {
			r := m.watch(header...)
			readers.Go(func() { until(t, r, `"synced"`, "c000/ContainerDied", "c000/ContainerRemoved") })
		}
		for _, to := range []event.State{event.StateExited, event.StateNonExistent} {
			time.Sleep(5 * answerTimeout)
			b.Publish([]relist.Change{change(0, "c000", to)})
		}
		readers.Wait()
	})
}

// TestDeadReaderTLS has clients that do not read what is sent: they are cut off, and
// their slots are free.
func TestDeadReaderTLS(t *testing.T) {
	for name, stall := range map[string]bool{"the body": false, "the connection": true} {
		t.Run(name, func(t *testing.T) {
			bothHTTP(t, func(t *testing.T, http2 bool) {
				b := newBackend(t, merge.Options{})
				m := startInMemory(t, b, http2)
				until(t, m.watch(), `"synced"`)
				time.Sleep(2 * answerTimeout) // it was silent before
				if stall {
					m.stall()
				}
				b.flood(0, 1000)
				synctest.Wait()
				if n := m.watches.count(); n != 1 {
					t.Fatalf("%d watches", n)
				}
				time.Sleep(2 * answerTimeout)
				synctest.Wait()
				if n := m.watches.count(); n != 0 {
					t.Error("it is not cut off")
				}
			})
		})
	}
}
