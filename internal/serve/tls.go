package serve

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
)

// certificates are a server's, read again when their files have changed. The files
// are compared at each handshake, by content: they are small beside what a handshake
// costs, and every way to replace them is noticed, such as the links that Kubernetes
// swaps for a secret.
type certificates struct {
	files TLSFiles
	log   *slog.Logger

	mu      sync.Mutex
	current *tls.Config
	content pems // what current was made from
	// complaint is what was last said of files that can't be used, to say it once.
	complaint string
}

// pems are the contents of the files.
type pems struct{ cert, key, clientCA []byte }

func (p pems) equal(q pems) bool {
	return bytes.Equal(p.cert, q.cert) && bytes.Equal(p.key, q.key) && bytes.Equal(p.clientCA, q.clientCA)
}

// newCertificates fails when the files can't be used.
func newCertificates(files TLSFiles, log *slog.Logger) (*certificates, error) {
	c := &certificates{files: files, log: log}
	content, err := c.read()
	if err != nil {
		return nil, err
	}
	if c.current, err = c.parse(content); err != nil {
		return nil, err
	}
	c.content = content
	return c, nil
}

// config is the listener's: it has a fresh look for each connection.
func (c *certificates) config() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: []string{"h2", "http/1.1"},
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			return c.latest(), nil
		},
	}
}

// latest returns the configuration by the files as they are, or as they were when
// they last could be used.
func (c *certificates) latest() *tls.Config {
	c.mu.Lock()
	defer c.mu.Unlock()
	content, err := c.read()
	if err == nil && content.equal(c.content) {
		c.complaint = ""
		return c.current
	}
	var fresh *tls.Config
	if err == nil {
		fresh, err = c.parse(content)
	}
	if err != nil {
		if why := err.Error(); why != c.complaint {
			c.log.Error("the TLS files can't be used: keeping what was read before", "err", err)
			c.complaint = why
		}
		return c.current
	}
	c.log.Info("the TLS files have changed and are in use", "cert", c.files.Cert)
	c.current, c.content, c.complaint = fresh, content, ""
	return c.current
}

func (c *certificates) read() (p pems, err error) {
	for _, f := range []struct {
		path string
		to   *[]byte
	}{{c.files.Cert, &p.cert}, {c.files.Key, &p.key}, {c.files.ClientCA, &p.clientCA}} {
		if *f.to, err = os.ReadFile(f.path); err != nil {
			return p, err
		}
	}
	return p, nil
}

var errNoAuthority = errors.New("it holds no certificate")

func (c *certificates) parse(p pems) (*tls.Config, error) {
	pair, err := tls.X509KeyPair(p.cert, p.key)
	if err != nil {
		return nil, fmt.Errorf("certificate %s with key %s: %w", c.files.Cert, c.files.Key, err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(p.clientCA) {
		return nil, fmt.Errorf("clients' authorities %s: %w", c.files.ClientCA, errNoAuthority)
	}
	return &tls.Config{
		MinVersion:   tls.VersionTLS12,
		NextProtos:   []string{"h2", "http/1.1"},
		Certificates: []tls.Certificate{pair},
		ClientAuth:   tls.RequireAndVerifyClientCert,
		ClientCAs:    pool,
		// A session from before a change of the authorities must not be resumed.
		SessionTicketsDisabled: true,
	}, nil
}
