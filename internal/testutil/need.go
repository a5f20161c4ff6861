// Package testutil holds what the tests of several packages share.
package testutil

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// RequireEnv names the features that a test run must have, separated by commas:
// ebpf, cgroup, containerd, browser, curl. A test that lacks one of them fails instead of
// being skipped, so that CI can't turn green by skipping.
const RequireEnv = "HYBRID_PLEG_TEST_REQUIRE"

// Need goes on when err is nil. Otherwise the test lacks feature: it is skipped
// with err as the reason, or fails when the environment requires the feature.
func Need(t testing.TB, feature string, err error) {
	t.Helper()
	if err == nil {
		return
	}
	if slices.Contains(strings.Split(os.Getenv(RequireEnv), ","), feature) {
		t.Fatalf("%s is required by %s: %v", feature, RequireEnv, err)
	}
	t.Skipf("needs %s: %v", feature, err)
}
