package kerneltest

import (
	"os/exec"
	"strings"
	"testing"
)

func TestHostMirror(t *testing.T) {
	if _, err := exec.LookPath("apt-get"); err != nil {
		t.Skip(err)
	}
	if !exists(keyring) {
		t.Skip("no keys of Debian: this host is not Debian, perhaps")
	}
	mirror, err := hostMirror(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(mirror, "://") || strings.HasSuffix(mirror, "/debian") {
		t.Errorf("the mirror is %q", mirror)
	}
}
