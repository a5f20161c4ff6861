package kerneltest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// keyring holds the keys that Debian signs its archive with. It is the host's own.
const keyring = "/usr/share/keyrings/debian-archive-keyring.gpg"

// apt is a private apt: it has its own list of sources, lists, cache and (empty) list of what is
// installed, and leaves the host's alone. Of the host it takes the keyring and how to reach the
// network.
type apt struct {
	dir string
}

// hostMirror returns the mirror of Debian's archive that the host's apt is set up with,
// without the last part of its address, which differs between the archive's parts.
func hostMirror(ctx context.Context) (string, error) {
	sites, err := output(ctx, "", "apt-get", "indextargets", "--format", "$(SITE)")
	if err != nil {
		return "", err
	}
	for site := range strings.Lines(sites) {
		if mirror, ok := strings.CutSuffix(strings.TrimRight(site, "/\n"), "/debian"); ok {
			return mirror, nil
		}
	}
	return "", errors.New("the host's apt knows no mirror of Debian: name one with -mirror")
}

// newApt makes a private apt in dir, which must be empty, and gets the lists of packages.
func newApt(ctx context.Context, dir, mirror string, archs []string) (*apt, error) {
	if _, err := os.Stat(keyring); err != nil {
		return nil, fmt.Errorf("the keys of Debian, to verify what is fetched, are missing (package debian-archive-keyring): %w", err)
	}
	for _, d := range []string{"lists/partial", "cache/archives/partial"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			return nil, err
		}
	}
	var sources strings.Builder
	for _, part := range archiveParts() {
		fmt.Fprintf(&sources, "deb [signed-by=%s arch=%s] %s/%s %s main\n", keyring, strings.Join(archs, ","), mirror, part.path, part.suite)
	}
	for name, text := range map[string]string{"sources.list": sources.String(), "status": ""} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return nil, err
		}
	}
	a := &apt{dir: dir}
	// "Any", because otherwise a suite that can't be reached is no error.
	if _, err := a.run(ctx, "apt-get", "-qq", "-o", "APT::Update::Error-Mode=any", "update"); err != nil {
		return nil, fmt.Errorf("fetch Debian's lists of packages from %s: %w", mirror, err)
	}
	return a, nil
}

func (a *apt) run(ctx context.Context, program string, args ...string) (string, error) {
	return a.runIn(ctx, a.dir, program, args...)
}

func (a *apt) runIn(ctx context.Context, dir, program string, args ...string) (string, error) {
	options := []string{
		"-o", "Dir::Etc::SourceList=" + filepath.Join(a.dir, "sources.list"),
		"-o", "Dir::Etc::SourceParts=/dev/null",
		"-o", "Dir::State::Lists=" + filepath.Join(a.dir, "lists"),
		"-o", "Dir::State::Status=" + filepath.Join(a.dir, "status"),
		"-o", "Dir::Cache=" + filepath.Join(a.dir, "cache"),
		"-o", "APT::Architectures::=amd64",
		"-o", "APT::Architectures::=arm64",
		"-o", "Acquire::Languages=none",
		// Its user for fetching may not be able to write here.
		"-o", "APT::Sandbox::User=root",
		// No signature, no package: whatever the host's configuration allows.
		"-o", "APT::Get::AllowUnauthenticated=false",
		"-o", "Acquire::AllowInsecureRepositories=false",
	}
	return output(ctx, dir, program, append(options, args...)...)
}

// A deb is one version of a package.
type deb struct{ name, arch, version string }

func (d deb) String() string { return d.name + ":" + d.arch + "=" + d.version }

// newest returns the highest version of a package that begins with version.
func (a *apt) newest(ctx context.Context, name, arch, version string) (deb, error) {
	out, err := a.run(ctx, "apt-cache", "madison", name+":"+arch)
	if err != nil {
		return deb{}, err
	}
	// "name | version | where it is", the highest version first.
	for line := range strings.Lines(out) {
		if f := strings.Split(line, "|"); len(f) == 3 && strings.HasPrefix(strings.TrimSpace(f[1]), version) {
			return deb{name, arch, strings.TrimSpace(f[1])}, nil
		}
	}
	return deb{}, fmt.Errorf("the archive of Debian has no %s for %s with a version %s*", name, arch, version)
}

// kernelPart matches the packages that hold a kernel's files, in the "Depends" of its
// image's package: newer ones are split, and depend on exactly the other parts.
func kernelPart() *regexp.Regexp {
	return regexp.MustCompile(`(linux-(?:image|binary|modules|base)-[^ ,]+) \(= ([^)]+)\)`)
}

// parts returns the packages that hold a kernel's files. meta, which depends on them, has none.
func (a *apt) parts(ctx context.Context, meta deb) ([]deb, error) {
	part := kernelPart()
	found := []deb{meta}
	seen := map[deb]bool{meta: true}
	for i := 0; i < len(found); i++ {
		out, err := a.run(ctx, "apt-cache", "show", found[i].String())
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(out) {
			if !strings.HasPrefix(line, "Depends:") {
				continue
			}
			for _, m := range part.FindAllStringSubmatch(line, -1) {
				if d := (deb{m[1], meta.arch, m[2]}); !seen[d] {
					seen[d] = true
					found = append(found, d)
				}
			}
		}
	}
	if len(found) == 1 {
		return nil, fmt.Errorf("%s depends on no kernel", meta)
	}
	return found[1:], nil
}

// unpack fetches packages, which apt verifies, and unpacks their files into dir.
func (a *apt) unpack(ctx context.Context, dir string, debs ...deb) error {
	fetched, err := os.MkdirTemp(a.dir, "debs-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(fetched) }() // it is in the folder of the private apt
	args := []string{"-qq", "download"}
	for _, d := range debs {
		args = append(args, d.String())
	}
	if _, err := a.runIn(ctx, fetched, "apt-get", args...); err != nil {
		return fmt.Errorf("fetch %v: %w", debs, err)
	}
	files, err := filepath.Glob(filepath.Join(fetched, "*.deb"))
	if err != nil {
		return err
	}
	if len(files) != len(debs) {
		return fmt.Errorf("fetch %v: apt left %d files", debs, len(files))
	}
	for _, f := range files {
		if _, err := output(ctx, "", "dpkg-deb", "-x", f, dir); err != nil {
			return err
		}
	}
	return nil
}

// output runs a program in dir and returns what it prints; what it complains of is in the error.
func output(ctx context.Context, dir, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		return "", errors.Join(fmt.Errorf("%s: %w", program, err), errors.New(strings.TrimSpace(stderr.String())))
	}
	return stdout.String(), nil
}
