package testutil

import (
	"os/exec"
	"testing"
)

// Curl returns the path of curl. A test that lacks it is skipped, or fails when
// [RequireEnv] names curl.
func Curl(t testing.TB) string {
	t.Helper()
	path, err := exec.LookPath("curl")
	Need(t, "curl", err)
	return path
}
