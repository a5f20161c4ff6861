// Package runtimetest starts container runtimes in tests. It is apart from
// testruntime so that programs which use that do not link package testing.
package runtimetest

import (
	"os"
	"strings"
	"testing"

	"github.com/hybrid-pleg/hybrid-pleg/internal/testruntime"
	"github.com/hybrid-pleg/hybrid-pleg/internal/testutil"
)

// Feature is the name by which a test run can require containerd; see
// [testutil.RequireEnv].
const Feature = "containerd"

// Start starts a runtime that is closed when the test ends, which fails the test
// when a trace of it remains. On a host that cannot run containers the test is
// skipped.
func Start(t testing.TB, o testruntime.Options) *testruntime.Runtime {
	t.Helper()
	testutil.Need(t, Feature, testruntime.Check())
	r, err := testruntime.Start(t.Context(), o)
	if err != nil {
		t.Fatalf("start a container runtime: %v", err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			log, _ := os.ReadFile(r.LogFile())
			t.Logf("the end of containerd's log:\n%s", lastLines(string(log), 40))
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		if left := r.Leftovers(); len(left) > 0 {
			t.Errorf("left behind by the runtime:\n%s", strings.Join(left, "\n"))
		}
	})
	return r
}

func lastLines(s string, n int) string {
	lines := strings.SplitAfter(s, "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "")
}
