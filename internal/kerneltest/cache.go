package kerneltest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// cache is the folder in which kernels are kept:
//
//	KERNEL/release    what `uname -r` will say
//	KERNEL/vmlinuz
//	KERNEL/modules/   those needed, uncompressed; the file "order" lists them
//	KERNEL/wanted     what modules were needed when it was fetched
//	busybox-ARCH/busybox
type cache struct{ dir string }

func (c cache) kernel(k Kernel) string     { return filepath.Join(c.dir, k.Name) }
func (c cache) busybox(arch string) string { return filepath.Join(c.dir, "busybox-"+arch) }

// has reports whether a kernel is kept, with all modules that are needed now.
func (c cache) has(k Kernel) bool {
	wanted, err := os.ReadFile(filepath.Join(c.kernel(k), "wanted"))
	return err == nil && string(wanted) == wantedModules()
}

func wantedModules() string { return strings.Join(neededModules(), " ") + "\n" }

// release is the kernel's, for people.
func (c cache) release(k Kernel) string {
	data, err := os.ReadFile(filepath.Join(c.kernel(k), "release"))
	if err != nil {
		return k.Name
	}
	return strings.TrimSpace(string(data))
}

// fill fetches what is missing of the kernels. say is told what is being done. Without
// network its error names what is missing.
func (c cache) fill(ctx context.Context, wanted []Kernel, mirror string, say func(string)) error {
	var kernels []Kernel
	var busyboxes, archs, names []string
	for _, k := range wanted {
		if !c.has(k) && !slices.Contains(kernels, k) {
			kernels = append(kernels, k)
			names = append(names, "kernel "+k.Name)
			archs = append(archs, k.Arch)
		}
		if !exists(c.busybox(k.Arch)) && !slices.Contains(busyboxes, k.Arch) {
			busyboxes = append(busyboxes, k.Arch)
			names = append(names, "busybox for "+k.Arch)
			archs = append(archs, k.Arch)
		}
	}
	if len(names) == 0 {
		return nil
	}
	if mirror == "" {
		var err error
		if mirror, err = hostMirror(ctx); err != nil {
			return fmt.Errorf("missing in %s: %s; %w", c.dir, strings.Join(names, ", "), err)
		}
	}
	slices.Sort(archs)
	say(fmt.Sprintf("fetching from %s: %s", mirror, strings.Join(names, ", ")))
	if err := c.fetch(ctx, kernels, busyboxes, slices.Compact(archs), mirror, say); err != nil {
		return fmt.Errorf("missing in %s: %s; with network they are fetched from Debian's archive (another mirror: -mirror): %w",
			c.dir, strings.Join(names, ", "), err)
	}
	return nil
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

func (c cache) fetch(ctx context.Context, kernels []Kernel, busyboxes, archs []string, mirror string, say func(string)) (err error) {
	if err := os.MkdirAll(c.dir, 0o755); err != nil {
		return err
	}
	// In the cache's folder, so that what is done is moved into place at once.
	tmp, err := os.MkdirTemp(c.dir, "new-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(tmp)) }()
	private := filepath.Join(tmp, "apt")
	if err := os.Mkdir(private, 0o755); err != nil {
		return err
	}
	a, err := newApt(ctx, private, mirror, archs)
	if err != nil {
		return err
	}
	for _, arch := range busyboxes {
		d, err := a.newest(ctx, "busybox-static", arch, "")
		if err != nil {
			return err
		}
		files, out := filepath.Join(tmp, "files-"+arch), filepath.Join(tmp, "busybox-"+arch)
		if err := a.unpack(ctx, files, d); err != nil {
			return err
		}
		if err := os.Mkdir(out, 0o755); err != nil {
			return err
		}
		found, err := one(files, "bin/busybox", "usr/bin/busybox")
		if err != nil {
			return err
		}
		if err := copyFile(found, filepath.Join(out, "busybox")); err != nil {
			return err
		}
		if err := putInPlace(out, c.busybox(arch)); err != nil {
			return err
		}
	}
	for _, k := range kernels {
		out := filepath.Join(tmp, k.Name)
		if err := a.takeKernel(ctx, k, filepath.Join(tmp, "files-"+k.Name), out); err != nil {
			return fmt.Errorf("kernel %s: %w", k.Name, err)
		}
		if !c.has(k) { // but an older one, maybe, with fewer modules
			if err := os.RemoveAll(c.kernel(k)); err != nil {
				return err
			}
		}
		if err := putInPlace(out, c.kernel(k)); err != nil {
			return err
		}
		say("fetched kernel " + c.release(k))
	}
	return nil
}

// putInPlace moves what is done to where it belongs, unless another process was faster.
func putInPlace(from, to string) error {
	if err := os.Rename(from, to); err != nil && !exists(to) {
		return err
	}
	return nil
}

// takeKernel fetches a kernel, unpacks it into files and puts what is needed into out.
func (a *apt) takeKernel(ctx context.Context, k Kernel, files, out string) error {
	meta, err := a.newest(ctx, k.Package, k.Arch, k.Version)
	if err != nil {
		return err
	}
	debs, err := a.parts(ctx, meta)
	if err != nil {
		return err
	}
	if err := a.unpack(ctx, files, debs...); err != nil {
		return err
	}
	modules, err := one(files, "lib/modules/*", "usr/lib/modules/*")
	if err != nil {
		return err
	}
	vmlinuz, err := one(files, "boot/vmlinuz-*", "usr/lib/modules/*/vmlinuz")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(out, "modules"), 0o755); err != nil {
		return err
	}
	order, err := takeModules(ctx, modules, filepath.Join(out, "modules"), neededModules())
	if err != nil {
		return err
	}
	text := strings.Join(append(order, ""), "\n")
	return errors.Join(
		os.WriteFile(filepath.Join(out, "modules", "order"), []byte(text), 0o644),
		os.WriteFile(filepath.Join(out, "wanted"), []byte(wantedModules()), 0o644),
		os.WriteFile(filepath.Join(out, "release"), []byte(filepath.Base(modules)+"\n"), 0o644),
		copyFile(vmlinuz, filepath.Join(out, "vmlinuz")),
		// Tens of megabytes that nobody needs any more.
		os.RemoveAll(files),
	)
}

// one returns the only file below dir that matches one of the patterns.
func one(dir string, patterns ...string) (string, error) {
	var found []string
	for _, p := range patterns {
		matches, err := filepath.Glob(filepath.Join(dir, p))
		if err != nil {
			return "", err
		}
		found = append(found, matches...)
	}
	if len(found) != 1 {
		return "", fmt.Errorf("of %s there are %d in the packages: %v", strings.Join(patterns, " or "), len(found), found)
	}
	return found[0], nil
}

// copyFile copies a file with its mode.
func copyFile(from, to string) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, data, info.Mode().Perm())
}
