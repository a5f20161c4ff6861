package runner

import (
	"errors"
	"io"
	"os"

	"github.com/hybrid-pleg/hybrid-pleg/internal/experiment/plan"
)

// ErrRefused marks an experiment that was refused before anything was started.
var ErrRefused = errors.New("the experiment can't be run")

// The runtimes besides a socket's URL.
const (
	// Embedded is the runtime in memory, Containerd a private one that is built and
	// started for the experiment.
	Embedded   = "embedded"
	Containerd = "containerd"
)

// The ways to the truth.
const (
	// TruthAuto is a recorder in the kernel on a real runtime, and the embedded runtime's
	// own account; the experiment is refused where that can't be had.
	TruthAuto = "auto"
	// TruthNone does without kernel times.
	TruthNone = "none"
)

// Options are the settings of an experiment besides its plan.
type Options struct {
	Plan *plan.Plan
	// Runtime is Embedded, Containerd, or a runtime's socket as unix:///path.
	Runtime string
	// Truth is TruthAuto or TruthNone.
	Truth string
	// Image and Command are what containers run on a runtime that is not the
	// experiment's own; see workload.FromTemplate.
	Image   string
	Command []string
	// Output is the directory for the results. It is made, and must be empty if it
	// exists.
	Output string
	// Program is this program's own path, Kubelet that of kubelet-pleg; empty: it is
	// built when an arm needs it, in a checkout.
	Program, Kubelet string
	// Terminal is where progress is shown; see NewProgress.
	Terminal *os.File
	// Stdout takes the results in few words.
	Stdout io.Writer
	Getenv func(string) string
}
