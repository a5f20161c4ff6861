//go:build linux

package bpf

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

func TestExplain(t *testing.T) {
	healthy := map[string]string{
		btfFile:                      "…",
		lockdownFile:                 "[none] integrity confidentiality\n",
		"/proc/sys/kernel/osrelease": "4.19.0-x\n",
	}
	locked := map[string]string{btfFile: "…", lockdownFile: "none integrity [confidentiality]\n"}
	for _, test := range []struct {
		err   error
		files map[string]string
		want  string // empty: it may pass
	}{
		{unix.EPERM, healthy, "CAP_BPF"},
		{unix.EACCES, healthy, "CAP_BPF"},
		{unix.EPERM, locked, "locked down"},
		{&ebpf.VerifierError{Cause: unix.EINVAL}, locked, "locked down"},
		{&ebpf.VerifierError{Cause: unix.EINVAL}, healthy, "Linux 4.19.0-x lacks"},
		{ebpf.ErrNotSupported, healthy, "Linux 4.19.0-x lacks"},
		{ebpf.ErrNotSupported, nil, "CONFIG_DEBUG_INFO_BTF"},
		{unix.ENOSYS, healthy, "lacks"},
		{unix.ENOMEM, healthy, ""},
		{errors.New("other"), healthy, ""},
	} {
		read := func(name string) ([]byte, error) {
			if content, ok := test.files[name]; ok {
				return []byte(content), nil
			}
			return nil, fs.ErrNotExist
		}
		got := advise(fmt.Errorf("load: %w", test.err), read)
		if test.want == "" && got != "" || !strings.Contains(got, test.want) {
			t.Errorf("%v: got %q, want %q", test.err, got, test.want)
		}
	}
}

func TestBadOptions(t *testing.T) {
	for _, opts := range []Options{
		{WithoutV2: true},
		{V1: V1Hierarchy{Controller: "memory"}},
	} {
		if _, err := Load(opts); err == nil || errors.Is(err, ErrUnsupported) {
			t.Errorf("%+v: %v", opts, err)
		}
	}
}
