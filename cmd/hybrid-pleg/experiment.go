package main

import (
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/internal/daemon"
	"github.com/hybrid-pleg/hybrid-pleg/internal/endpoint"
	"github.com/hybrid-pleg/hybrid-pleg/internal/experiment/peer"
	"github.com/hybrid-pleg/hybrid-pleg/internal/experiment/plan"
	"github.com/hybrid-pleg/hybrid-pleg/internal/experiment/runner"
	"github.com/spf13/cobra"
)

func experimentCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "experiment",
		Short: "Compare relist periods, triggers and other generators under the same workload",
		Long: `Compare generators of pod lifecycle events: relist periods, triggers, the kubelet's own
generators, the bare event stream. All watch the same containers; when these really
started and ended is recorded apart from them. What comes out is how late each
told, what it missed, and what it cost, with how certain that is.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(experimentRunCommand(), experimentReportCommand(), experimentCompareCommand(), experimentCleanupCommand(), experimentArmCommand(), experimentRuntimeCommand())
	return cmd
}

// usageError marks an error as the user's, without adding to what it says.
type usageError struct{ error }

func (e usageError) Unwrap() []error { return []error{daemon.ErrUsage, e.error} }

func experimentCleanupCommand() *cobra.Command {
	var at string
	cmd := &cobra.Command{
		Use:   "cleanup",
		Short: "Remove what an experiment that was killed has left on a runtime",
		Long: `Remove all pods that experiments have made on a runtime, and their cgroups. It is needed
only after a run that was killed or ended at once by a second Ctrl-C: others remove
what they made. A private containerd is removed by the next one that starts.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			n, err := runner.Cleanup(cmd.Context(), at, os.Getenv)
			fmt.Fprintf(cmd.OutOrStdout(), "removed %d pods\n", n)
			return err
		},
	}
	cmd.Flags().StringVar(&at, "runtime-endpoint", endpoint.Auto, "the runtime's CRI socket: auto, or unix:///path")
	return cmd
}

// experimentArmCommand runs the generators that are no command of their own. It is
// started by experiment run.
func experimentArmCommand() *cobra.Command {
	opts := peer.Options{Stdout: os.Stdout, Log: slog.New(slog.NewTextHandler(os.Stderr, nil))}
	cmd := &cobra.Command{Use: "arm", Hidden: true, Args: cobra.NoArgs, Short: "Run a plain generator, to compare with"}
	cmd.PersistentFlags().StringVar(&opts.Endpoint, "runtime-endpoint", "", "the runtime's CRI socket, as unix:///path")
	events := &cobra.Command{
		Use: "events", Short: "Tell what the runtime's event stream says", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return peer.Events(cmd.Context(), opts) },
	}
	poll := &cobra.Command{
		Use: "poll", Short: "List containers again and again", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if opts.Period <= 0 {
				return usageError{fmt.Errorf("--period: %s is not above 0", opts.Period)}
			}
			return peer.Poll(cmd.Context(), opts)
		},
	}
	poll.Flags().DurationVar(&opts.Period, "period", time.Second, "pause between lists")
	cmd.AddCommand(events, poll)
	return cmd
}

// experimentRuntimeCommand is the embedded runtime as a process of its own. It is
// started by experiment run.
func experimentRuntimeCommand() *cobra.Command {
	var lag string
	var seed uint64
	cmd := &cobra.Command{
		Use: "runtime", Hidden: true, Args: cobra.NoArgs, Short: "Serve an empty embedded runtime and tell what befalls its containers",
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := plan.ParseLag(lag)
			if err != nil {
				return usageError{fmt.Errorf("--state-lag: %w", err)}
			}
			return runner.ServeEmbedded(cmd.Context(), l, seed, os.Stdout)
		},
	}
	cmd.Flags().StringVar(&lag, "state-lag", "realistic", "how late states are shown")
	cmd.Flags().Uint64Var(&seed, "seed", 0, "makes lags repeatable; 0 draws one")
	return cmd
}
