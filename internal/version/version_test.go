package version

import (
	"runtime"
	"strings"
	"testing"
)

func TestVersion(t *testing.T) {
	if Number() == "" {
		t.Error("there is no version")
	}
	if got := Details(); !strings.HasPrefix(got, "hybrid-pleg "+Number()+" "+runtime.GOOS+"/") || strings.Contains(got, "\n") {
		t.Errorf("details: %q", got)
	}
	number = "v1.2.3"
	defer func() { number = "" }()
	if got := Details(); !strings.HasPrefix(got, "hybrid-pleg v1.2.3 ") {
		t.Errorf("details: %q", got)
	}
}
