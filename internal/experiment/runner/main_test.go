package runner

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/hybrid-pleg/hybrid-pleg/internal/experiment/plan"
	"github.com/hybrid-pleg/hybrid-pleg/internal/experiment/result"
	"go.uber.org/goleak"
)

// program is hybrid-pleg, built for these tests: arms and the embedded runtime are
// processes of it.
var program string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "hp")
	if err != nil {
		panic(err)
	}
	program = filepath.Join(dir, "hybrid-pleg")
	build := exec.Command("go", "build", "-o", program, "github.com/hybrid-pleg/hybrid-pleg/cmd/hybrid-pleg")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "build hybrid-pleg:", err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(dir)
		os.Exit(code)
	}))
}

func mustPlan(t *testing.T, yaml string) *plan.Plan {
	t.Helper()
	p, err := plan.Parse("test.yaml", []byte(yaml))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// options are those of an experiment on the embedded runtime. What its processes leave
// in the directory for temporary files fails the test.
func options(t *testing.T, yaml string) Options {
	t.Helper()
	// Short, since a socket's path may have little more than 100 bytes.
	tmp, err := os.MkdirTemp("", "hp")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", tmp)
	t.Cleanup(func() {
		left, _ := filepath.Glob(filepath.Join(tmp, "*"))
		if len(left) > 0 {
			t.Errorf("left behind: %q", left)
		}
		os.RemoveAll(tmp)
	})
	return Options{
		Plan: mustPlan(t, yaml), Runtime: Embedded, Truth: TruthAuto, Output: filepath.Join(t.TempDir(), "out"),
		Program: program, Stdout: io.Discard, Getenv: func(string) string { return "" },
	}
}

// conduct checks and runs an experiment, and reads what it has written.
func conduct(t *testing.T, ctx context.Context, o Options) result.Experiment {
	t.Helper()
	ready, err := Check(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	if err := ready.Run(ctx); err != nil {
		t.Fatal(err)
	}
	e, err := result.Read(o.Output)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := plan.Read(filepath.Join(o.Output, result.PlanFile)); err != nil {
		t.Errorf("the plan as run can't be run again: %v", err)
	}
	for _, name := range []string{result.SummaryFile, result.ReportFile, result.TransitionsCSV} {
		if _, err := os.Stat(filepath.Join(o.Output, name)); err != nil {
			t.Error(err)
		}
	}
	return e
}
