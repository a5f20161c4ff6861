package testruntime

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// Image names the one image that every runtime has. Its entry point is the program
// [Program]; without arguments it is the pause container.
const Image = "localhost/hybrid-pleg/testimage:latest"

const (
	// Program is the path of the test program in the image.
	Program = "/testimage"
	// Tiny is the path of a program in the image that ends at once with code 0:
	// a few hundred bytes of machine code without a runtime, the cheapest exec
	// there is.
	Tiny = "/tiny"
)

// BuildImage makes the archive of the test image from the sources in the checkout,
// or finds that it is made, and returns its path. Like [Build], it may be called by
// several processes at once.
func BuildImage(ctx context.Context) (archive string, err error) {
	root, err := checkout()
	if err != nil {
		return "", err
	}
	source := filepath.Join(root, "internal", "testruntime", "testimage")
	var files []string
	for _, pattern := range []string{"*.go", "tiny/*.c"} {
		found, err := filepath.Glob(filepath.Join(source, pattern))
		if err != nil {
			return "", err
		}
		files = append(files, found...)
	}
	key, err := hashFiles([]string{runtime.GOARCH, "layout 1"}, files...)
	if err != nil {
		return "", fmt.Errorf("hash the test image's sources: %w", err)
	}
	dir := filepath.Join(root, ".cache", "testimage", key, "image")
	err = makeOnce(ctx, dir, func(tmp string) error {
		return buildImage(ctx, source, tmp)
	})
	if err != nil {
		return "", fmt.Errorf("build the test image: %w", err)
	}
	return filepath.Join(dir, "image.tar"), nil
}

func buildImage(ctx context.Context, source, out string) error {
	program := filepath.Join(out, "testimage")
	err := goBuild(ctx, source, []string{"CGO_ENABLED=0"}, "-trimpath", "-ldflags", "-s -w", "-o", program, ".")
	if err != nil {
		return err
	}
	tiny := filepath.Join(out, "tiny")
	if err := compileTiny(ctx, filepath.Join(source, "tiny", "tiny.c"), tiny); err != nil {
		return err
	}
	layer, err := layerTar(map[string]string{Program: program, Tiny: tiny})
	if err != nil {
		return err
	}
	archive, err := dockerArchive(layer)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(out, "image.tar"), archive, 0o644)
}

func compileTiny(ctx context.Context, source, out string) error {
	// The compiler that cgo would use for runc.
	cc, err := exec.CommandContext(ctx, "go", "env", "CC").Output()
	if err != nil {
		return fmt.Errorf("go env CC: %w", err)
	}
	words := strings.Fields(string(cc))
	if len(words) == 0 {
		return fmt.Errorf("go env CC is empty: a C compiler is needed")
	}
	args := slices.Concat(words[1:], []string{"-Os", "-static", "-nostdlib", "-ffreestanding", "-fno-stack-protector", "-s",
		// One segment, so that executing it maps one page.
		"-Wl,-z,noseparate-code", "-Wl,--build-id=none", "-o", out, source})
	if output, err := exec.CommandContext(ctx, words[0], args...).CombinedOutput(); err != nil {
		return fmt.Errorf("compile %s: %w\n%s", source, err, tail(output))
	}
	return nil
}

// layerTar returns the image's only layer: files maps paths in the image to files
// to take.
func layerTar(files map[string]string) ([]byte, error) {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, dir := range []string{"dev/", "etc/", "proc/", "sys/", "tmp/"} {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir, Mode: 0o755}); err != nil {
			return nil, err
		}
	}
	for _, name := range []string{Program, Tiny} {
		data, err := os.ReadFile(files[name])
		if err != nil {
			return nil, err
		}
		if err := tarFile(w, strings.TrimPrefix(name, "/"), 0o755, data); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

// dockerArchive wraps one layer the way "docker save" does: it is the simplest of
// the formats that containerd imports.
func dockerArchive(layer []byte) ([]byte, error) {
	diffID := sha256.Sum256(layer)
	config, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH,
		"os":           "linux",
		"config": map[string]any{
			"Entrypoint": []string{Program},
			"Cmd":        []string{"pause"},
			"WorkingDir": "/",
		},
		"rootfs": map[string]any{
			"type":     "layers",
			"diff_ids": []string{"sha256:" + hex.EncodeToString(diffID[:])},
		},
	})
	if err != nil {
		return nil, err
	}
	manifest, err := json.Marshal([]map[string]any{{
		"Config":   "config.json",
		"RepoTags": []string{Image},
		"Layers":   []string{"layer.tar"},
	}})
	if err != nil {
		return nil, err
	}
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, f := range []struct {
		name string
		data []byte
	}{{"layer.tar", layer}, {"config.json", config}, {"manifest.json", manifest}} {
		if err := tarFile(w, f.name, 0o644, f.data); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

func tarFile(w *tar.Writer, name string, mode int64, data []byte) error {
	h := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: int64(len(data))}
	if err := w.WriteHeader(h); err != nil {
		return err
	}
	_, err := io.Copy(w, bytes.NewReader(data))
	return err
}
