// Command hybrid-pleg generates pod lifecycle events from a container runtime.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/hybrid-pleg/hybrid-pleg/internal/config"
	"github.com/hybrid-pleg/hybrid-pleg/internal/daemon"
	"github.com/hybrid-pleg/hybrid-pleg/internal/shutdown"
	"github.com/hybrid-pleg/hybrid-pleg/internal/view"
	"github.com/spf13/cobra"
)

// Exit statuses.
const (
	exitFailed = 1
	exitUsage  = 2
)

func main() { os.Exit(run(os.Args[1:])) }

func run(args []string) int {
	ctx, stop := shutdown.Context(context.Background(), os.Exit)
	defer stop()
	root := rootCommand()
	root.SetArgs(args)
	started := false
	root.PersistentPreRun = func(*cobra.Command, []string) { started = true }
	err := root.ExecuteContext(ctx)
	switch {
	case err == nil:
		return 0
	case !started, errors.Is(err, daemon.ErrUsage), errors.Is(err, view.ErrUsage), errors.Is(err, config.ErrConfig):
		fmt.Fprintf(os.Stderr, "hybrid-pleg: %v\nSee hybrid-pleg --help.\n", err)
		return exitUsage
	default:
		fmt.Fprintf(os.Stderr, "hybrid-pleg: %v\n", err)
		return exitFailed
	}
}

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "hybrid-pleg",
		Short: "Pod lifecycle events from a container runtime: early, once each, in order",
		Long: `hybrid-pleg tells what happens to the pods of a node's container runtime: each
container's and sandbox's start, end and removal, within milliseconds, once, and
in order. It lists the runtime over CRI and compares; signals from the cgroup file
system, an eBPF probe and the runtime's own event stream make it list early.`,
		SilenceUsage:  true,
		SilenceErrors: true,
		// With a Run of its own, so that cobra refuses arguments that are no command.
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(runCommand(), watchCommand(), podsCommand(), experimentCommand(), versionCommand())
	return root
}
