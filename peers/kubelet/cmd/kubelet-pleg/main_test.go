package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// asProgram in the environment makes the test binary be the program, so that tests
// can run it as a process of its own.
const asProgram = "KUBELET_PLEG_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

func TestUsage(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		args []string
		code int
		says string
	}{
		"no endpoint":        {nil, exitUsage, "--runtime-endpoint: give"},
		"no path":            {[]string{"--runtime-endpoint", "tcp://127.0.0.1:1"}, exitUsage, "unix:///path/to/socket"},
		"a file":             {[]string{"--runtime-endpoint", "unix://" + file}, exitUsage, "it is a regular file"},
		"nobody there":       {[]string{"--runtime-endpoint", "unix://" + file + ".sock"}, exitFailed, file + ".sock"},
		"an unknown flag":    {[]string{"--triggers", "none"}, exitUsage, "unknown flag: --triggers"},
		"an argument":        {[]string{"run"}, exitUsage, `unknown command "run"`},
		"too short a period": {[]string{"--relist-period", "1us"}, exitUsage, "--relist-period: 1µs is too short"},
		"a negative period":  {[]string{"--relist-period=-1s"}, exitUsage, "--relist-period: -1s is too short"},
		"a period, no unit":  {[]string{"--relist-period", "10"}, exitUsage, "missing unit"},
		"an unknown level":   {[]string{"--log-level", "loud"}, exitUsage, `there is no level "loud"`},
		"help":               {[]string{"--help"}, 0, ""},
		"version":            {[]string{"--version"}, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			if got := run(c.args, &stdout, &stderr); got != c.code {
				t.Errorf("exit status %d, want %d", got, c.code)
			}
			if !strings.Contains(stderr.String(), c.says) {
				t.Errorf("it says %q, which lacks %q", stderr.String(), c.says)
			}
			if c.code != 0 && stdout.Len() > 0 {
				t.Errorf("standard output is for events alone, and has %q", stdout.String())
			}
			if c.code == 0 && (stdout.Len() == 0 || stderr.Len() > 0) {
				t.Errorf("asked for, it belongs to standard output: %q, and not %q", stdout.String(), stderr.String())
			}
		})
	}
}
