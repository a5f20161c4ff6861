package endpoint

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestResolve(t *testing.T) {
	dir, err := os.MkdirTemp("", "ep") // short, for a socket
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	live, dead := filepath.Join(dir, "live"), filepath.Join(dir, "dead")
	l, err := net.Listen("unix", live)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	d, err := net.Listen("unix", dead)
	if err != nil {
		t.Fatal(err)
	}
	d.(*net.UnixListener).SetUnlinkOnClose(false)
	d.Close()
	missing := filepath.Join(dir, "missing")

	tests := []struct {
		name, given, env string
		sockets          []string
		want, why        string // why: what Why or, after a !, the error says
	}{
		{"embedded", "embedded", "/ignored", nil, "", "asked for"},
		{"url", "unix:///run/x.sock", "/ignored", nil, "unix:///run/x.sock", "asked for"},
		{"path", "/run/x.sock", "", nil, "unix:///run/x.sock", "asked for"},
		{"environment", "auto", "unix:///run/x.sock", []string{live}, "unix:///run/x.sock", "set by CONTAINER_RUNTIME_ENDPOINT"},
		{"first that answers", "auto", "", []string{missing, dead, live}, "unix://" + live, "the first well-known socket that answers"},
		{"empty is auto", "", "", []string{live}, "unix://" + live, "the first"},
		{"none answers", "auto", "", []string{missing, dead}, "", "no well-known runtime socket answers"},
		{"scheme", "tcp://127.0.0.1:1", "", nil, "", `!"tcp://127.0.0.1:1": give auto, embedded, or`},
		{"relative", "x.sock", "", nil, "", `!"x.sock": give`},
		{"relative url", "unix://x.sock", "", nil, "", `!"unix://x.sock": give`},
		{"word", "containerd", "", nil, "", `!"containerd": give`},
		{"word in the environment", "auto", "containerd", nil, "", `!CONTAINER_RUNTIME_ENDPOINT: `},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := Resolver{Sockets: test.sockets, Getenv: func(name string) string {
				if name == EnvVar {
					return test.env
				}
				return ""
			}}
			got, err := r.Resolve(t.Context(), test.given)
			if says, bad := strings.CutPrefix(test.why, "!"); bad {
				if err == nil || !strings.Contains(err.Error(), says) {
					t.Errorf("the error is %v, want one that says %q", err, says)
				}
				return
			}
			if err != nil || got.Endpoint != test.want || !strings.Contains(got.Why, test.why) {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
	if len(WellKnown()) == 0 || !filepath.IsAbs(WellKnown()[0]) {
		t.Errorf("the well-known sockets are %q", WellKnown())
	}
}
