package kerneltest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	_ "embed"
)

//go:embed guest/boot.sh
var guestBoot []byte

// PartsOptions say what [WriteParts] writes.
type PartsOptions struct {
	// Dir is where to; it is made if need be, and what is there of parts is replaced.
	Dir string
	// Kernels are names of kernels for amd64.
	Kernels []string
	// Mirror is Debian's archive; empty stands for the one that the host's apt uses.
	Mirror string
	// Out takes what is being done, a line each.
	Out io.Writer
}

// WriteParts writes what machines need that are not those of the matrix, but have a Debian of
// their own on their disk, as Vagrant's have:
//
//	kernels/NAME/vmlinuz
//	kernels/NAME/initrd     loads what disk, network and containers need, and starts the disk's init
//	kernels/NAME/release    what uname -r will say
//	guest/                  to be put at the same places in the machine:
//	guest/tests/internal_e2e.test
//	guest/src/              a checkout with just so much that the tests above find their runtime
//
// An error wraps [ErrOptions] when a kernel's name is none.
func WriteParts(ctx context.Context, o PartsOptions) (err error) {
	wanted, err := partsKernels(o.Kernels)
	if err != nil {
		return err
	}
	say := func(text string) { fmt.Fprintf(o.Out, "kerneltest: %s\n", text) }
	root, err := checkout()
	if err != nil {
		return err
	}
	c := cache{filepath.Join(root, ".cache", "kernels")}
	if err := needPrograms(ctx, []string{"amd64"}, say); err != nil {
		return err
	}
	if err := c.fill(ctx, wanted, strings.TrimSuffix(o.Mirror, "/"), say); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp("", "kerneltest-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(tmp)) }()
	b := builder{root: root, dir: tmp, cache: c, say: say}
	for _, k := range wanted {
		if err := b.bootParts(k, filepath.Join(o.Dir, "kernels", k.Name)); err != nil {
			return fmt.Errorf("kernel %s: %w", k.Name, err)
		}
	}
	guest := filepath.Join(o.Dir, "guest")
	if err := os.RemoveAll(guest); err != nil {
		return err
	}
	for _, d := range []string{"tests", "suites", "src/bin"} {
		if err := os.MkdirAll(filepath.Join(guest, d), 0o755); err != nil {
			return err
		}
	}
	say("building the tests")
	if err := b.suite(ctx, guest, "amd64", suiteDaemon()); err != nil {
		return err
	}
	if err := b.runtime(ctx, guest, "amd64"); err != nil {
		return err
	}
	// The machine has its own C library, and the caller says what to run.
	return errors.Join(removeLibraries(guest), os.RemoveAll(filepath.Join(guest, "suites")))
}

// partsKernels finds kernels for amd64 by their names.
func partsKernels(names []string) ([]Kernel, error) {
	var found []Kernel
	for _, name := range names {
		n := len(found)
		for _, k := range kernels() {
			if k.Name == name && k.Arch == "amd64" {
				found = append(found, k)
			}
		}
		if len(found) == n {
			return nil, fmt.Errorf("%w: there is no kernel %q for amd64", ErrOptions, name)
		}
	}
	return found, nil
}

// bootParts writes what a machine is booted with.
func (b builder) bootParts(k Kernel, dir string) error {
	initrd, err := b.initramfs(k, guestBoot)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return errors.Join(
		copyFile(filepath.Join(b.cache.kernel(k), "vmlinuz"), filepath.Join(dir, "vmlinuz")),
		copyFile(initrd, filepath.Join(dir, "initrd")),
		copyFile(filepath.Join(b.cache.kernel(k), "release"), filepath.Join(dir, "release")),
	)
}

// removeLibraries removes the C library that runtime puts in for machines without one.
func removeLibraries(guest string) error {
	return errors.Join(os.RemoveAll(filepath.Join(guest, "lib")), os.RemoveAll(filepath.Join(guest, "lib64")),
		os.RemoveAll(filepath.Join(guest, "usr")))
}
