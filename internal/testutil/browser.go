package testutil

import (
	"errors"
	"os"
	"os/exec"
	"testing"
)

// Browser returns the path of a Chromium that runs without a screen, and the flags
// it needs to be run by a test. A test that lacks one is skipped, or fails when
// [RequireEnv] names browser.
func Browser(t testing.TB) (path string, flags []string) {
	t.Helper()
	flags = []string{
		"--headless", "--disable-gpu", "--no-first-run", "--disable-dev-shm-usage",
		"--user-data-dir=" + t.TempDir(),
	}
	if os.Geteuid() == 0 {
		flags = append(flags, "--no-sandbox") // refuses to run as root otherwise
	}
	for _, name := range []string{"chromium-headless-shell", "chromium", "google-chrome", "chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, flags
		}
	}
	Need(t, "browser", errors.New("no Chromium on the PATH; on Debian: apt-get install chromium-headless-shell"))
	return "", nil
}

// Browse has a browser show a page until the test ends.
func Browse(t testing.TB, url string) {
	t.Helper()
	path, flags := Browser(t)
	cmd := exec.CommandContext(t.Context(), path, append(flags, "--remote-debugging-port=0", url)...)
	own(cmd)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		end(cmd)
		_ = cmd.Wait()
	})
}
