package serve

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/merge"
)

// authority signs certificates.
type authority struct {
	t    testing.TB
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	pem  []byte
}

func newAuthority(t testing.TB, name string) *authority {
	t.Helper()
	a := &authority{t: t}
	a.key = newKey(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &a.key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.pem = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return a
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// sign makes a certificate and its key.
func (a *authority) sign(name string, usage x509.ExtKeyUsage) (cert, key []byte) {
	a.t.Helper()
	k := newKey(a.t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{usage}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &k.PublicKey, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		a.t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})
}

// secret is a directory as Kubernetes makes it for a secret: the files are links
// through a link that is swapped.
type secret struct {
	t   testing.TB
	dir string
	n   int
}

func newSecret(t testing.TB, server, clients *authority) *secret {
	s := &secret{t: t, dir: t.TempDir()}
	s.put(server, clients)
	for _, name := range []string{"tls.crt", "tls.key", "ca.crt"} {
		if err := os.Symlink(filepath.Join("..data", name), filepath.Join(s.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func (s *secret) put(server, clients *authority) {
	s.t.Helper()
	cert, key := server.sign("server", x509.ExtKeyUsageServerAuth)
	s.swap(map[string][]byte{"tls.crt": cert, "tls.key": key, "ca.crt": clients.pem})
}

func (s *secret) swap(files map[string][]byte) {
	s.t.Helper()
	s.n++
	version := "..v" + string(rune('0'+s.n))
	if err := os.Mkdir(filepath.Join(s.dir, version), 0o700); err != nil {
		s.t.Fatal(err)
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(s.dir, version, name), data, 0o600); err != nil {
			s.t.Fatal(err)
		}
	}
	fresh := filepath.Join(s.dir, "..data_tmp")
	if err := os.Symlink(version, fresh); err != nil {
		s.t.Fatal(err)
	}
	if err := os.Rename(fresh, filepath.Join(s.dir, "..data")); err != nil {
		s.t.Fatal(err)
	}
}

func (s *secret) files() TLSFiles {
	return TLSFiles{
		Cert: filepath.Join(s.dir, "tls.crt"), Key: filepath.Join(s.dir, "tls.key"), ClientCA: filepath.Join(s.dir, "ca.crt"),
	}
}

// startTCP serves HTTP on a TCP address, and returns where.
func startTCP(t *testing.T, files TLSFiles, log *slog.Logger) string {
	t.Helper()
	b := newBackend(t, merge.Options{Epoch: "e"})
	b.pods(1)
	l, err := ListenHTTP(t.Context(), "127.0.0.1:0", files, log)
	if err != nil {
		t.Fatal(err)
	}
	serveOn(t, b, Options{Log: log}, nil, Listeners{HTTP: l})
	return l.Addr().String()
}

// clientConfig is that of a client that trusts the server and shows a certificate,
// where it has one.
func clientConfig(t testing.TB, server *authority, cert, key []byte) *tls.Config {
	t.Helper()
	config := &tls.Config{RootCAs: x509.NewCertPool()}
	config.RootCAs.AddCert(server.cert)
	if cert != nil {
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			t.Fatal(err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config
}

// ask asks for /v1/info on a new connection.
func ask(t *testing.T, url string, server *authority, cert, key []byte) error {
	t.Helper()
	config := clientConfig(t, server, cert, key)
	tr := &http.Transport{TLSClientConfig: config, DisableKeepAlives: true, ForceAttemptHTTP2: true}
	defer tr.CloseIdleConnections()
	resp, err := (&http.Client{Transport: tr, Timeout: patience}).Get(url + "/v1/info")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("status %s", resp.Status)
	}
	return nil
}

// record is a log that is looked at.
type record struct {
	mu   sync.Mutex
	text strings.Builder
}

func (r *record) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(b)
}

func (r *record) count(s string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Count(r.text.String(), s)
}

func TestOnlyCertificatesConnect(t *testing.T) {
	server, clients, others := newAuthority(t, "server"), newAuthority(t, "clients"), newAuthority(t, "others")
	secret := newSecret(t, server, clients)
	var log record
	addr := startTCP(t, secret.files(), slog.New(slog.NewTextHandler(&log, nil)))
	good, goodKey := clients.sign("agent", x509.ExtKeyUsageClientAuth)
	bad, badKey := others.sign("agent", x509.ExtKeyUsageClientAuth)
	wrong, wrongKey := clients.sign("agent", x509.ExtKeyUsageServerAuth)
	refused := func(what string, cert, key []byte) {
		t.Helper()
		if err := ask(t, "https://"+addr, server, cert, key); err == nil {
			t.Errorf("%s connects", what)
		}
	}
	taken := func(what string, cert, key []byte) {
		t.Helper()
		if err := ask(t, "https://"+addr, server, cert, key); err != nil {
			t.Errorf("%s can't connect: %v", what, err)
		}
	}
	taken("a client of the authority", good, goodKey)
	refused("a client without a certificate", nil, nil)
	refused("a client of another authority", bad, badKey)
	refused("a server's certificate", wrong, wrongKey)
	if resp, err := http.Get("http://" + addr + "/v1/info"); err == nil {
		resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			t.Error("without TLS it is served")
		}
	}

	// Files that can't be used leave the old ones in force, and are told of once.
	secret.swap(map[string][]byte{"tls.crt": good, "tls.key": badKey, "ca.crt": others.pem})
	taken("while the new key does not fit", good, goodKey)
	taken("while the new key does not fit", good, goodKey)
	secret.swap(map[string][]byte{"tls.crt": []byte("rubbish")})
	taken("while files are missing", good, goodKey)
	if n := log.count("can't be used"); n != 2 {
		t.Errorf("the log tells %d times of files that can't be used:\n%s", n, log.text.String())
	}

	// Good ones hold from the next connection on.
	server = newAuthority(t, "new server")
	secret.put(server, others)
	refused("a client of the former authority", good, goodKey)
	taken("a client of the new authority", bad, badKey)
	if n := log.count("have changed and are in use"); n != 1 {
		t.Errorf("the log tells %d times of new files", n)
	}
}

func TestListenHTTPRefused(t *testing.T) {
	a := newAuthority(t, "a")
	secret := newSecret(t, a, a)
	files := secret.files()
	for _, test := range []struct {
		address string
		files   TLSFiles
		err     error
		says    string
	}{
		{"9754", TLSFiles{}, ErrAddress, "give host:port"},
		{"127.0.0.1:http", TLSFiles{}, ErrAddress, "give host:port"},
		{":9754", TLSFiles{}, ErrNeedsTLS, `since others can reach ":9754"`},
		{"0.0.0.0:9754", TLSFiles{}, ErrNeedsTLS, "give the files"},
		{"[::]:0", TLSFiles{}, ErrNeedsTLS, ""},
		{"example.org:80", TLSFiles{}, ErrNeedsTLS, ""},
		{"127.0.0.1:0", TLSFiles{Cert: files.Cert, Key: files.Key}, ErrNeedsTLS, "all three files"},
		{"127.0.0.1:0", TLSFiles{Cert: files.Cert, Key: files.Key, ClientCA: "/none"}, os.ErrNotExist, "/none"},
		{"127.0.0.1:0", TLSFiles{Cert: files.ClientCA, Key: files.Key, ClientCA: files.ClientCA}, nil, "private key does not match"},
		{"127.0.0.1:0", TLSFiles{Cert: files.Cert, Key: files.Key, ClientCA: files.Key}, errNoAuthority, files.Key},
	} {
		l, err := ListenHTTP(t.Context(), test.address, test.files, slog.Default())
		if err == nil {
			l.Close()
		}
		if err == nil || test.err != nil && !errors.Is(err, test.err) || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s %v: %v", test.address, test.files, err)
		}
	}
}

// TestGuard has requests that a browser makes on behalf of pages.
func TestGuard(t *testing.T) {
	addr := startTCP(t, TLSFiles{}, nil)
	for _, test := range []struct {
		host   string
		header []string
		code   int
	}{
		{addr, nil, 200},
		{"localhost:9754", nil, 200},
		{"LOCALHOST", nil, 200},
		{"[::1]:80", nil, 200},
		{"evil.example:9754", nil, 421},
		{"evil.example", nil, 421},
		{"localhost.evil.example", nil, 421},
		{addr, []string{"Sec-Fetch-Site", "cross-site"}, 403},
		{addr, []string{"Sec-Fetch-Site", "same-site"}, 403},
		{addr, []string{"Sec-Fetch-Site", "none"}, 200},
		{addr, []string{"Sec-Fetch-Site", "same-origin", "Origin", "http://" + addr}, 200},
		{addr, []string{"Origin", "http://evil.example"}, 403},
		{addr, []string{"Origin", "null"}, 403},
	} {
		req, err := http.NewRequestWithContext(within(t), http.MethodGet, "http://"+addr+"/v1/pods", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = test.host
		for i := 0; i+1 < len(test.header); i += 2 {
			req.Header.Set(test.header[i], test.header[i+1])
		}
		tr := &http.Transport{DisableKeepAlives: true}
		resp, err := (&http.Client{Transport: tr}).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != test.code || resp.Header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s %v: %s, want %d", test.host, test.header, resp.Status, test.code)
		}
	}
}
