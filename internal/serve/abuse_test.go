package serve

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	hybridplegv1 "github.com/hybrid-pleg/hybrid-pleg/api/hybridpleg/v1"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/merge"
	"google.golang.org/grpc/codes"
)

// descriptors is how many are open, 0 where that can't be told.
func descriptors() int {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return len(entries)
}

// abuse is what clients send that is no request, or half of one, or nothing.
type abuse struct {
	// cut is cut off soon; idle may keep its connection for a while, as one does that has
	// said hello properly.
	cut, idle []string
}

func abuses() (http1, http2 abuse) {
	const (
		hello    = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
		settings = "\x00\x00\x00\x04\x00\x00\x00\x00\x00"
	)
	http1.cut = []string{
		"", "P", "PR", "PRI", "GET", "GET /v1/pods", "GET /v1/pods HTTP/1.1\r\nHost: x\r\nX-Half", "\x00\x01\x02\x03", "\x16\x03\x01\x02\x00\x01", // TLS
		"GET /v1/events?" + strings.Repeat("x", 100<<10) + " HTTP/1.1\r\nHost: x\r\n\r\n",
		"POST /v1/pods HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\nabc",
		"GET /v1/pods HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n",
		"GET /v1/pods/%ff%00 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
		"GET /v1/pods HTTP/9.9\r\n\r\n", strings.Repeat("\r\n", 1000),
	}
	http2.cut = []string{"PRI ", "PRI * HTTP/2.0\r\n\r\nSX\r\n\r\n", hello + "\xff\xff\xff\xff\xff\xff\xff\xff\xff"}
	http2.idle = []string{
		hello, hello + settings,
		hello + settings + "\x00\x00\x05\x01\x05\x00\x00\x00\x01\x82\x84\x86\x44\x01", // half a request
	}
	return http1, http2
}

// send sends each text on connections of its own, and waits for the server to get rid
// of them.
func (a abuse) send(t *testing.T, r *running, dial func() (net.Conn, error)) {
	t.Helper()
	const rounds = 3
	before := descriptors()
	var conns []net.Conn
	for range rounds {
		for _, text := range slices.Concat(a.cut, a.idle) {
			conn, err := dial()
			if err != nil {
				t.Fatal(err)
			}
			_, _ = conn.Write([]byte(text)) // it may be cut off at once
			conns = append(conns, conn)
		}
	}
	eventually(t, "the connections to be cut off", func() bool { return r.connections.count() <= rounds*len(a.idle) })
	for _, conn := range conns {
		conn.Close()
	}
	eventually(t, "all to be gone", func() bool { return r.connections.count() == 0 })
	eventually(t, "the descriptors to be as many as before", func() bool { return descriptors() <= before })
}

// TestAbuse has such clients at the socket, and then ones that ask properly.
func TestAbuse(t *testing.T) {
	r := start(t, newBackend(t, merge.Options{}), Options{}, func(s *Server) { s.helloTimeout = 50 * time.Millisecond })
	all, http2 := abuses()
	all.cut, all.idle = append(all.cut, http2.cut...), http2.idle
	all.send(t, r, func() (net.Conn, error) { return net.Dial("unix", r.path) })
	if code, body := get(t, r.http(), "/v1/pods"); code != 200 {
		t.Errorf("afterwards: %d %s", code, body)
	}
	if _, err := r.dial().ListPods(within(t), &hybridplegv1.ListPodsRequest{}); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// TestAbuseTCP is TestAbuse at a TCP address: without TLS, before TLS is agreed on, and
// after that.
func TestAbuseTCP(t *testing.T) {
	server, clients := newAuthority(t, "server"), newAuthority(t, "clients")
	files := newSecret(t, server, clients).files()
	cert, key := clients.sign("agent", x509.ExtKeyUsageClientAuth)
	http1, http2 := abuses()
	none := abuse{cut: slices.Concat(http1.cut, http2.cut, http2.idle)} // where no HTTP/2 is spoken
	// What may be the beginning of HTTP/2 is given ten seconds by net/http.
	http2.idle = append(http2.idle, "", "P", "PR", "PRI ")
	http2.cut = append(http2.cut[1:], "GET /v1/pods HTTP/1.1\r\nHost: x\r\n\r\n")
	for name, test := range map[string]struct {
		abuse
		files    TLSFiles
		protocol string // to agree on by TLS; empty: no TLS from the client
	}{
		"plain":         {none, TLSFiles{}, ""},
		"no handshake":  {none, files, ""},
		"TLS, HTTP/1.1": {http1, files, "http/1.1"},
		"TLS, HTTP/2":   {http2, files, "h2"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBackend(t, merge.Options{})
			l, err := ListenHTTP(t.Context(), "127.0.0.1:0", test.files, nil)
			if err != nil {
				t.Fatal(err)
			}
			addr := l.Addr().String()
			// Enough for a handshake on a busy machine.
			r := serveOn(t, b, Options{}, func(s *Server) { s.helloTimeout = 500 * time.Millisecond }, Listeners{HTTP: l})
			test.send(t, r, func() (net.Conn, error) {
				if test.protocol == "" {
					return net.Dial("tcp", addr)
				}
				config := clientConfig(t, server, cert, key)
				config.NextProtos = []string{test.protocol}
				return tls.Dial("tcp", addr, config)
			})
			scheme := "http"
			if l.Secure() {
				scheme = "https"
			}
			if err := ask(t, scheme+"://"+addr, server, cert, key); err != nil {
				t.Errorf("afterwards: %v", err)
			}
		})
	}
}

// TestHugeFilters has filters at and beyond their bounds.
func TestHugeFilters(t *testing.T) {
	b := newBackend(t, merge.Options{})
	b.pods(1)
	api := start(t, b, Options{}, nil).dial()
	names := make([]string, 1000)
	for i := range names {
		names[i] = fmt.Sprintf("%0253d", i)
	}
	f := &hybridplegv1.Filter{Namespaces: names, PodNames: names, PodUids: names, LabelSelector: strings.Repeat("a,", 2000) + "a"}
	if resp, err := api.ListPods(within(t), &hybridplegv1.ListPodsRequest{Filter: f}); err != nil || len(resp.GetPods()) != 0 {
		t.Errorf("at the bounds: %v, %v", resp, err)
	}
	f.LabelSelector = strings.Repeat("a,", 1<<20)
	_, err := api.ListPods(within(t), &hybridplegv1.ListPodsRequest{Filter: f})
	wants(t, err, codes.ResourceExhausted, "larger than max")
	_, err = api.ListPods(within(t), &hybridplegv1.ListPodsRequest{Filter: &hybridplegv1.Filter{LabelSelector: strings.Repeat("(", 4000)}})
	wants(t, err, codes.InvalidArgument, "label selector")
}
