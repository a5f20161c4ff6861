package serve

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// guard refuses what comes from a foreign web page: on a loopback address without
// TLS anything on the host may ask, and a browser asks on behalf of any page. A page
// whose own name was made to point to this host (DNS rebinding) gives itself away by
// its Host header; one of another origin by what browsers say about it.
func guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !localHost(r.Host):
			refuse(w, http.StatusMisdirectedRequest, "the Host header names neither localhost nor an IP address: use one of these")
		case foreign(r):
			refuse(w, http.StatusForbidden, "a web page of another origin may not read this")
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// localHost reports whether a Host header is localhost or an IP address, with or
// without a port.
func localHost(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if strings.EqualFold(host, "localhost") {
		return true
	}
	_, err := netip.ParseAddr(host)
	return err == nil
}

// foreign reports whether a browser asks on behalf of a page of another origin.
func foreign(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none": // none: the user typed the address
	default:
		return true
	}
	origin := r.Header.Get("Origin")
	if origin == "" {
		return false
	}
	u, err := url.Parse(origin)
	return err != nil || !strings.EqualFold(u.Host, r.Host)
}
