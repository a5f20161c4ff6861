package bpf

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"
)

const (
	btfFile      = "/sys/kernel/btf/vmlinux"
	lockdownFile = "/sys/kernel/security/lockdown"
)

// explain adds what is missing and what to do about it to an error of loading or
// attaching, and [ErrUnsupported] unless it may pass by itself.
func explain(err error) error {
	if advice := advise(err, os.ReadFile); advice != "" {
		return fmt.Errorf("%w: %s: %w", ErrUnsupported, advice, err)
	}
	return err
}

// advise finds the cause of err. It is empty for what may pass, such as want of memory.
// readFile is os.ReadFile, or a test's.
func advise(err error, readFile func(string) ([]byte, error)) string {
	var verifier *ebpf.VerifierError
	denied := errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES)
	refused := errors.As(err, &verifier)
	lacking := errors.Is(err, ebpf.ErrNotSupported) || errors.Is(err, btf.ErrNotFound) ||
		errors.Is(err, unix.ENOSYS) || errors.Is(err, fs.ErrNotExist)

	if !denied && !refused && !lacking {
		return ""
	}
	// In this mode kernel memory must not be read: the kernel says EPERM, or the
	// verifier does not know the helper.
	if state, err := readFile(lockdownFile); err == nil && bytes.Contains(state, []byte("[confidentiality]")) {
		return "the kernel is locked down for confidentiality, which forbids probes that read its memory (boot with lockdown=integrity or none)"
	}
	if _, err := readFile(btfFile); errors.Is(err, fs.ErrNotExist) {
		return "the kernel offers no type information in " + btfFile + " (it needs CONFIG_DEBUG_INFO_BTF=y and sysfs mounted)"
	}
	if denied {
		return "not permitted (run as root, or with CAP_BPF and CAP_PERFMON, before Linux 5.11 with CAP_SYS_RESOURCE too; in a container, its seccomp profile must allow bpf)"
	}
	return kernelRelease(readFile) + " lacks what the probe needs (Linux 5.10 or later with CONFIG_BPF_SYSCALL, CONFIG_BPF_JIT, CONFIG_BPF_EVENTS and CONFIG_CGROUPS)"
}

func kernelRelease(readFile func(string) ([]byte, error)) string {
	release, err := readFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return "this kernel"
	}
	return "Linux " + strings.TrimSpace(string(release))
}
