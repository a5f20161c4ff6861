// Package e2e holds the tests and benchmarks that run everything together: a real
// containerd with real pods, watched by generators with every choice of triggers
// at the same time, whose events must agree.
//
// They need root and Linux, and are skipped elsewhere; see
// [github.com/hybrid-pleg/hybrid-pleg/internal/testutil.RequireEnv].
package e2e
