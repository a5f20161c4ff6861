package kerneltest

import (
	"bytes"
	"context"
	"debug/elf"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// neededModules are what a machine needs to have its disk, its port, and containers; and a network,
// for those of scripts/vagrant.
func neededModules() []string {
	return []string{"virtio_pci", "virtio_blk", "virtio_console", "virtio_net", "ext4", "overlay"}
}

// takeModules copies the modules of the names, and what they depend on, from an unpacked kernel's
// folder of modules to dir, uncompressed, and returns their files in the order in which they
// can be loaded. What is built into the kernel is left out.
func takeModules(ctx context.Context, from, dir string, names []string) ([]string, error) {
	files := make(map[string]string) // by name
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if base, _, ok := strings.Cut(filepath.Base(path), ".ko"); ok && err == nil && !d.IsDir() {
			files[moduleName(base)] = path
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	builtin, err := os.ReadFile(filepath.Join(from, "modules.builtin"))
	if err != nil {
		return nil, err
	}
	built := make(map[string]bool)
	for line := range strings.Lines(string(builtin)) {
		base, _, _ := strings.Cut(filepath.Base(line), ".ko")
		built[moduleName(base)] = true
	}

	var order []string
	var take func(name string) error
	take = func(name string) error {
		file := name + ".ko"
		if built[name] || slices.Contains(order, file) {
			return nil
		}
		if files[name] == "" {
			return fmt.Errorf("the kernel has no module %s", name)
		}
		data, err := readModule(ctx, files[name])
		if err != nil {
			return err
		}
		depends, err := moduleDepends(data)
		if err != nil {
			return fmt.Errorf("%s: %w", files[name], err)
		}
		for _, d := range depends {
			if err := take(moduleName(d)); err != nil {
				return err
			}
		}
		order = append(order, file)
		return os.WriteFile(filepath.Join(dir, file), data, 0o644)
	}
	for _, name := range names {
		if err := take(name); err != nil {
			return nil, err
		}
	}
	return order, nil
}

// moduleName is how a module calls itself: file names may have - in place of _.
func moduleName(base string) string { return strings.ReplaceAll(base, "-", "_") }

// readModule reads a module's file, which is compressed from 6.12 on.
func readModule(ctx context.Context, file string) ([]byte, error) {
	if filepath.Ext(file) != ".xz" {
		return os.ReadFile(file)
	}
	out, err := output(ctx, "", "xz", "-dc", file)
	return []byte(out), err
}

// moduleDepends reads which modules one needs from the words "key=value" in its section .modinfo.
func moduleDepends(module []byte) ([]string, error) {
	f, err := elf.NewFile(bytes.NewReader(module))
	if err != nil {
		return nil, err
	}
	section := f.Section(".modinfo")
	if section == nil {
		return nil, fmt.Errorf("no section .modinfo")
	}
	info, err := section.Data()
	if err != nil {
		return nil, err
	}
	for word := range bytes.SplitSeq(info, []byte{0}) {
		if list, ok := bytes.CutPrefix(word, []byte("depends=")); ok && len(list) > 0 {
			return strings.Split(string(list), ","), nil
		}
	}
	return nil, nil
}
