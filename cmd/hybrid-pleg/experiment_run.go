package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/internal/experiment/plan"
	"github.com/hybrid-pleg/hybrid-pleg/internal/experiment/runner"
	"github.com/spf13/cobra"
)

func experimentRunCommand() *cobra.Command {
	opts := runner.Options{Terminal: os.Stderr, Stdout: os.Stdout, Getenv: os.Getenv}
	var (
		flags   plan.Flags
		command string
		dry     bool
	)
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run an experiment and write its report",
		Long: `Run an experiment and write its results and a report into a directory.

A plan says which generators (arms) watch which workloads. It comes from a file, from
flags, or with the program: ` + strings.Join(plan.Ready(), ", ") + `. Flags change the plan. Everything
is checked before anything is started; --dry-run does that and no more.

The runtime "embedded" plays containers in memory and needs nothing; "containerd"
builds and starts a private containerd, which needs root, Go and a C compiler.

Ctrl-C ends it early; what was measured until then is written all the same. A second
one ends it at once.`,
		Example: `  hybrid-pleg experiment run --plan periods --runtime containerd --dry-run
  hybrid-pleg experiment run --plan periods --runtime containerd --output periods
  hybrid-pleg experiment run --arm "triggers=none period=1s" --arm "triggers=cgroup,cri" \
      --arrivals "poisson 5/s" --lifetime "exponential 2s" --duration 1m`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if flags.Plan == "" && len(flags.Arms) == 0 {
				return usageError{fmt.Errorf("give a plan with --plan (a file, or one of %s), or arms with --arm", strings.Join(plan.Ready(), ", "))}
			}
			p, err := flags.Make()
			if err != nil {
				return usageError{err}
			}
			opts.Plan = p
			opts.Command = strings.Fields(command)
			if opts.Output == "" {
				opts.Output = fmt.Sprintf("experiment-%s-%s", p.Name, time.Now().Format("20060102-150405"))
			}
			if opts.Program, err = os.Executable(); err != nil {
				return err
			}
			ready, err := runner.Check(cmd.Context(), opts)
			switch {
			case errors.Is(err, runner.ErrRefused):
				return usageError{err}
			case err != nil:
				return err
			case dry:
				return ready.Describe(cmd.OutOrStdout())
			}
			return ready.Run(cmd.Context())
		},
	}
	f := cmd.Flags()
	flags.Register(f)
	f.StringVar(&opts.Runtime, "runtime", runner.Embedded, "where to run it: embedded, containerd, auto, or a runtime's CRI socket as unix:///path")
	f.StringVar(&opts.Truth, "truth", runner.TruthAuto, "auto: record true times with eBPF on a real runtime; none: do without")
	f.StringVar(&opts.Image, "image", "", "the image of containers on a runtime that is not the experiment's own")
	f.StringVar(&command, "command", "sleep {seconds}", "what they run: {seconds} stands for the lifetime as 1.5, {lifetime} as 1.5s")
	f.StringVar(&opts.Output, "output", "", "the directory for the results (default: one named after the plan and the time)")
	f.StringVar(&opts.Kubelet, "kubelet-pleg", "", "the program kubelet-pleg, for the kubelet's arms (default: on the path, or built in a checkout)")
	f.BoolVar(&dry, "dry-run", false, "check everything, say what would be done and for how long, and end")
	f.SortFlags = false
	return cmd
}
