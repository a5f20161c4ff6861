package kerneltest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// programs are what the host must have, and the packages they are in.
func programs(archs []string) map[string]string {
	need := map[string]string{
		"dpkg-deb": "dpkg", "apt-get": "apt", "xz": "xz-utils", "mke2fs": "e2fsprogs", "ldd": "libc-bin",
	}
	if slices.Contains(archs, "amd64") {
		need["qemu-system-x86_64"] = "qemu-system-x86"
	}
	if slices.Contains(archs, "arm64") {
		need["qemu-system-aarch64"] = "qemu-system-arm"
	}
	return need
}

// needPrograms installs what is missing on the host, as root on Debian or Ubuntu; otherwise its
// error says what that is.
func needPrograms(ctx context.Context, archs []string, say func(string)) error {
	packages := func() (missing []string) {
		for program, pkg := range programs(archs) {
			if _, err := exec.LookPath(program); err != nil {
				missing = append(missing, pkg)
			}
		}
		slices.Sort(missing)
		return missing
	}
	missing := packages()
	if len(missing) == 0 {
		return nil
	}
	advice := "apt-get install --no-install-recommends " + strings.Join(missing, " ")
	if _, err := exec.LookPath("apt-get"); err != nil || os.Geteuid() != 0 {
		return fmt.Errorf("programs are missing; on Debian or Ubuntu: %s", advice)
	}
	say("installing: " + advice)
	// Another apt may be at work.
	wait := []string{"-qq", "-o", "DPkg::Lock::Timeout=300"}
	if _, err := output(ctx, "", "apt-get", append(wait, "update")...); err != nil {
		return fmt.Errorf("missing and not to be had: %s: %w", advice, err)
	}
	install := append(slices.Clone(wait), "-y", "install", "--no-install-recommends")
	if _, err := output(ctx, "", "apt-get", append(install, missing...)...); err != nil {
		return fmt.Errorf("missing and not to be had: %s: %w", advice, err)
	}
	if missing := packages(); len(missing) > 0 {
		return fmt.Errorf("still missing after it was installed: %v", missing)
	}
	return nil
}
