package kerneltest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/hybrid-pleg/hybrid-pleg/internal/testruntime"

	_ "embed"
)

//go:embed guest/init.sh
var guestInit []byte

//go:embed guest/initramfs.sh
var guestInitramfs []byte

// builder makes what machines boot from, in a folder that its owner removes.
type builder struct {
	root  string // of the checkout
	dir   string
	cache cache
	say   func(string)
}

// initramfs makes the initramfs of a kernel, whose first process is the script init: the same one
// for all kernels of a builder.
func (b builder) initramfs(k Kernel, init []byte) (file string, err error) {
	file = filepath.Join(b.dir, k.Name+".cpio")
	if exists(file) { // of another run with this kernel
		return file, nil
	}
	f, err := os.Create(file)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	a := newArchive(f)
	a.File("init", 0o755, init)
	busybox, err := os.ReadFile(filepath.Join(b.cache.busybox(k.Arch), "busybox"))
	if err != nil {
		return "", err
	}
	a.File("bin/busybox", 0o755, busybox)
	modules := filepath.Join(b.cache.kernel(k), "modules")
	entries, err := os.ReadDir(modules)
	if err != nil {
		return "", err
	}
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(modules, e.Name()))
		if err != nil {
			return "", err
		}
		a.File("modules/"+e.Name(), 0o644, data)
	}
	return file, a.Close()
}

// disk makes an image with the suites for machines of one architecture, and all they need. The
// checkout in it, /src, has just so much that internal/testruntime finds its binaries built.
func (b builder) disk(ctx context.Context, arch string, suites []Suite) (image string, err error) {
	stage := filepath.Join(b.dir, "disk-"+arch)
	defer func() { err = errors.Join(err, os.RemoveAll(stage)) }()
	for _, d := range []string{"bin", "etc", "tests", "suites", "src/bin", "dev", "proc", "sys", "root", "run", "tmp"} {
		if err := os.MkdirAll(filepath.Join(stage, d), 0o755); err != nil {
			return "", err
		}
	}
	if err := errors.Join(
		copyFile(filepath.Join(b.cache.busybox(arch), "busybox"), filepath.Join(stage, "bin/busybox")),
		os.Symlink("busybox", filepath.Join(stage, "bin/sh")),
		os.WriteFile(filepath.Join(stage, "init"), guestInit, 0o755),
		os.WriteFile(filepath.Join(stage, "etc/hosts"), []byte("127.0.0.1 localhost kerneltest\n"), 0o644),
		os.WriteFile(filepath.Join(stage, "etc/resolv.conf"), nil, 0o644), // containerd copies it
		os.WriteFile(filepath.Join(stage, "etc/passwd"), []byte("root:x:0:0:root:/:/bin/sh\n"), 0o644),
		os.WriteFile(filepath.Join(stage, "etc/group"), []byte("root:x:0:\n"), 0o644),
	); err != nil {
		return "", err
	}
	withRuntime := false
	for _, s := range suites {
		if err := b.suite(ctx, stage, arch, s); err != nil {
			return "", fmt.Errorf("suite %s: %w", s.Name, err)
		}
		withRuntime = withRuntime || s.Runtime
	}
	if withRuntime {
		if err := b.runtime(ctx, stage, arch); err != nil {
			return "", err
		}
	}
	// A file system as simple as possible: 5.10 lacks features that newer mke2fs switch on, and
	// nothing has to survive. The rest of the size is holes.
	image = filepath.Join(b.dir, arch+".img")
	_, err = output(ctx, "", "mke2fs", "-q", "-t", "ext2", "-m", "0", "-E", "root_owner=0:0", "-d", stage, image, "2G")
	return image, err
}

func (b builder) suite(ctx context.Context, stage, arch string, s Suite) error {
	binary := filepath.Join(stage, "tests", s.binary())
	if !exists(binary) {
		if err := b.goBuild(ctx, arch, "test", "-c", "-o", binary, "./"+s.Package); err != nil {
			return err
		}
		folder := filepath.Join(stage, "src", s.Package)
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return err
		}
		if testdata := filepath.Join(b.root, s.Package, "testdata"); exists(testdata) {
			if err := os.CopyFS(filepath.Join(folder, "testdata"), os.DirFS(testdata)); err != nil {
				return err
			}
		}
	}
	return os.WriteFile(filepath.Join(stage, "suites", s.Name), []byte(s.script()), 0o644)
}

// goBuild runs the go command for the machines' architecture.
func (b builder) goBuild(ctx context.Context, arch, command string, args ...string) error {
	env := []string{"GOOS=linux", "GOARCH=" + arch, "CGO_ENABLED=0"}
	_, err := output(ctx, b.root, "env", append(append(env, "go", command, "-trimpath", "-ldflags=-s -w"), args...)...)
	return err
}

// runtime puts in the daemon and containerd, runc and the test image as they are in the cache of
// internal/testruntime, together with the sources that it names them after.
func (b builder) runtime(ctx context.Context, stage, arch string) error {
	if err := b.goBuild(ctx, arch, "build", "-o", filepath.Join(stage, "src/bin/hybrid-pleg"), "./cmd/hybrid-pleg"); err != nil {
		return err
	}
	bin, err := testruntime.Build(ctx, sayWriter{b.say})
	if err != nil {
		return err
	}
	image, err := testruntime.BuildImage(ctx)
	if err != nil {
		return err
	}
	take := func(file string) error {
		rel, err := filepath.Rel(b.root, file)
		if err != nil {
			return err
		}
		to := filepath.Join(stage, "src", rel)
		return errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), copyFile(file, to))
	}
	files := []string{filepath.Join(b.root, "tools/runtime/go.mod"), filepath.Join(b.root, "tools/runtime/go.sum"), image}
	for _, program := range []string{"containerd", "containerd-shim-runc-v2", "ctr", "runc"} {
		files = append(files, filepath.Join(bin, program))
	}
	for _, pattern := range []string{"*.go", "tiny/*.c"} {
		found, err := filepath.Glob(filepath.Join(b.root, "internal/testruntime/testimage", pattern))
		if err != nil {
			return err
		}
		files = append(files, found...)
	}
	for _, f := range files {
		if err := take(f); err != nil {
			return err
		}
	}
	return libraries(ctx, stage, filepath.Join(bin, "runc"))
}

// libraries puts in the shared libraries of a program: runc alone is linked with the C library.
func libraries(ctx context.Context, stage, program string) error {
	out, err := output(ctx, "", "ldd", program)
	if err != nil {
		return err
	}
	// "libc.so.6 => /lib/…/libc.so.6 (0x…)", and the loader by its path alone.
	for word := range strings.FieldsSeq(out) {
		if !filepath.IsAbs(word) {
			continue
		}
		to := filepath.Join(stage, word)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if err := copyFile(word, to); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}

// sayWriter tells what is written to it, a line at a time.
type sayWriter struct{ say func(string) }

func (w sayWriter) Write(p []byte) (int, error) {
	for line := range strings.Lines(string(p)) {
		w.say(strings.TrimSuffix(line, "\n"))
	}
	return len(p), nil
}
