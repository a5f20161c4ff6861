package testruntime

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// toolsModule is where the checkout keeps the requirements of the binaries.
const toolsModule = "tools/runtime"

// A tool is a command that is built from the tools module.
type tool struct {
	pkg string
	// cgo is set for runc alone: its first stage, which enters the namespaces
	// before Go's threads exist, is C.
	cgo bool
}

func (t tool) name() string { return path.Base(t.pkg) }

func tools() []tool {
	const containerd = "github.com/containerd/containerd/v2/cmd/"
	return []tool{
		{pkg: containerd + "containerd"},
		{pkg: containerd + "containerd-shim-runc-v2"},
		{pkg: containerd + "ctr"},
		{pkg: "github.com/opencontainers/runc", cgo: true},
		{pkg: "sigs.k8s.io/cri-tools/cmd/crictl"},
	}
}

// buildTags leaves out snapshotters that need C libraries or special devices.
const buildTags = "no_btrfs,no_devmapper,no_zfs"

// Build makes the runtime's binaries, or finds that they are made, and returns the
// folder that holds them. Several processes may call it at once: one builds, the
// others wait. The working directory must be inside a checkout of this project.
//
// A cold build takes some minutes; progress (nil: standard error) is told which
// binary is being built.
func Build(ctx context.Context, progress io.Writer) (binDir string, err error) {
	root, err := checkout()
	if err != nil {
		return "", err
	}
	key, err := hashFiles(
		[]string{runtime.GOOS, runtime.GOARCH, buildTags},
		filepath.Join(root, toolsModule, "go.mod"),
		filepath.Join(root, toolsModule, "go.sum"),
	)
	if err != nil {
		return "", fmt.Errorf("hash the tools module: %w", err)
	}
	dir := filepath.Join(root, ".cache", "runtime", key, "bin")
	err = makeOnce(ctx, dir, func(tmp string) error {
		return buildTools(ctx, filepath.Join(root, toolsModule), tmp, progressOr(progress))
	})
	if err != nil {
		return "", fmt.Errorf("build the container runtime: %w", err)
	}
	return dir, nil
}

func buildTools(ctx context.Context, module, out string, progress io.Writer) error {
	began := time.Now()
	all := tools()
	fmt.Fprintf(progress, "testruntime: building a container runtime from Go modules; this is done once and takes some minutes\n")
	for i, t := range all {
		fmt.Fprintf(progress, "testruntime: [%d/%d] %s ... ", i+1, len(all), t.name())
		start := time.Now()
		cgo := "CGO_ENABLED=0"
		if t.cgo {
			cgo = "CGO_ENABLED=1"
		}
		err := goBuild(ctx, module, []string{cgo},
			"-trimpath", "-tags", buildTags, "-ldflags", "-s -w", "-o", filepath.Join(out, t.name()), t.pkg)
		if err != nil {
			fmt.Fprintln(progress, "failed")
			return fmt.Errorf("%s: %w", t.name(), err)
		}
		fmt.Fprintf(progress, "%.0f s\n", time.Since(start).Seconds())
	}
	fmt.Fprintf(progress, "testruntime: built in %.0f s\n", time.Since(began).Seconds())
	return nil
}

// goBuild runs "go build" with args in the module's folder dir.
func goBuild(ctx context.Context, dir string, env []string, args ...string) error {
	cmd := exec.CommandContext(ctx, "go", append([]string{"build"}, args...)...)
	cmd.Dir = dir
	// A go.work file or -mod flag of the caller is about another module.
	cmd.Env = append(os.Environ(), append([]string{"GOWORK=off", "GOFLAGS=-mod=readonly -buildvcs=false"}, env...)...)
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fmt.Errorf("go build in %s: %w\n%s", dir, err, tail(output.Bytes()))
	}
	return nil
}

// makeOnce has fill make the content of dir, unless it is there already. The
// content appears all at once, and one process at a time makes it.
func makeOnce(ctx context.Context, dir string, fill func(tmp string) error) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	parent := filepath.Dir(dir)
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return err
	}
	unlock, err := lockFile(ctx, filepath.Join(parent, "lock"))
	if err != nil {
		return err
	}
	defer unlock()
	if _, err := os.Stat(dir); err == nil {
		return nil // made while this process waited for the lock
	}
	tmp, err := os.MkdirTemp(parent, "new-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	if err := os.Chmod(tmp, 0o755); err != nil {
		return err
	}
	if err := fill(tmp); err != nil {
		return err
	}
	return os.Rename(tmp, dir)
}

// checkout returns the root of the checkout that the working directory is in.
func checkout() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for start := dir; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, toolsModule, "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("%s is not in a checkout of hybrid-pleg (no %s above it): "+
				"run it from one, or say where the binaries and the image are", start, toolsModule)
		}
	}
}

// hashFiles returns a short name for the content of files and the given words.
func hashFiles(words []string, files ...string) (string, error) {
	h := sha256.New()
	fmt.Fprintf(h, "%q", words)
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(h, "%d:", len(data))
		h.Write(data)
	}
	return hex.EncodeToString(h.Sum(nil))[:16], nil
}

// checkBinaries says which of the binaries needed to run containerd dir lacks.
func checkBinaries(dir string) error {
	var errs []error
	for _, t := range tools() {
		if t.name() == "crictl" {
			continue // only for people
		}
		if _, err := os.Stat(filepath.Join(dir, t.name())); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func progressOr(w io.Writer) io.Writer {
	if w == nil {
		return os.Stderr
	}
	return w
}

// tail returns the last lines of a program's output, for an error message.
func tail(output []byte) string {
	const most = 4096
	s := strings.TrimSpace(string(output))
	if len(s) > most {
		s = "[...]" + s[len(s)-most:]
	}
	return s
}
