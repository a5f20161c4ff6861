// Package version tells which build this is.
package version

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// number is set by the Makefile (-ldflags -X); a plain go build or go install
// leaves it empty, and the module's own version is told instead.
var number string

// Number is the version, such as v0.1.0, or "devel".
func Number() string {
	if number != "" {
		return number
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "devel"
}

// Details is the version with what a bug report needs beside it.
func Details() string {
	s := fmt.Sprintf("hybrid-pleg %s %s/%s %s", Number(), runtime.GOOS, runtime.GOARCH, runtime.Version())
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return s
	}
	for _, kv := range info.Settings {
		if kv.Key == "vcs.revision" {
			s += " commit " + kv.Value
		}
		if kv.Key == "vcs.modified" && kv.Value == "true" {
			s += " (modified)"
		}
	}
	return s
}
