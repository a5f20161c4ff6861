package serve

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// TLSFiles name the files of a server that asks clients for certificates. All are
// PEM. The zero value is no TLS.
type TLSFiles struct {
	Cert, Key string
	// ClientCA holds the authorities of the clients' certificates: whoever has one by
	// any of them may read everything.
	ClientCA string
}

// IsZero reports whether no file is given.
func (f TLSFiles) IsZero() bool { return f == TLSFiles{} }

func (f TLSFiles) complete() bool { return f.Cert != "" && f.Key != "" && f.ClientCA != "" }

var (
	// ErrAddress marks the error for an address that can't be one.
	ErrAddress = errors.New("bad address")
	// ErrNeedsTLS marks the error for TLS files that are missing.
	ErrNeedsTLS = errors.New("TLS with client certificates is needed")
)

// HTTPListener is a TCP listener for HTTP.
type HTTPListener struct {
	net.Listener
	config *tls.Config // nil: no TLS
}

// Secure reports whether TLS is spoken.
func (l *HTTPListener) Secure() bool { return l.config != nil }

// ListenHTTP listens at a TCP address. Without TLS files it must be a loopback one.
// The files are read again when they have changed. The error wraps [ErrAddress] or
// [ErrNeedsTLS] where it is the settings' fault.
func ListenHTTP(ctx context.Context, address string, files TLSFiles, log *slog.Logger) (*HTTPListener, error) {
	if err := CheckHTTP(address, files); err != nil {
		return nil, err
	}
	out := &HTTPListener{}
	if !files.IsZero() {
		certs, err := newCertificates(files, log)
		if err != nil {
			return nil, err
		}
		out.config = certs.config()
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	// The hosts file may have its own idea of localhost.
	if addr, ok := l.Addr().(*net.TCPAddr); out.config == nil && (!ok || !addr.IP.IsLoopback()) {
		_ = l.Close()
		return nil, fmt.Errorf("%q is %s on this host, which others can reach: %w", address, l.Addr(), ErrNeedsTLS)
	}
	out.Listener = l
	return out, nil
}

// CheckHTTP is the part of [ListenHTTP] that needs no system.
func CheckHTTP(address string, files TLSFiles) error {
	host, port, err := net.SplitHostPort(address)
	if _, bad := strconv.ParseUint(port, 10, 16); err != nil || bad != nil {
		return fmt.Errorf("%w: %q: give host:port, such as 127.0.0.1:9754", ErrAddress, address)
	}
	if !files.IsZero() && !files.complete() {
		return fmt.Errorf("%w: give all three files, of the certificate, its key, and the clients' authorities", ErrNeedsTLS)
	}
	if files.IsZero() && !loopback(host) {
		return fmt.Errorf("%w, since others can reach %q: give the files of a certificate, its key, and the clients' authorities, or a loopback address", ErrNeedsTLS, address)
	}
	return nil
}

func loopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}
