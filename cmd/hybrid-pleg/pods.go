package main

import (
	"github.com/hybrid-pleg/hybrid-pleg/internal/view"
	"github.com/spf13/cobra"
)

func podsCommand() *cobra.Command {
	var opts view.PodsOptions
	cmd := &cobra.Command{
		Use:   "pods",
		Short: "List the pods of a running hybrid-pleg",
		Long: `List the pods of a running hybrid-pleg as told so far, exited ones included.

CONTAINERS counts those that run, and all, by their names; RESTARTS adds up their
attempts. With --follow a pod is shown again whenever it changes, until stopped; one
that has gone has the state gone.`,
		Example: `  hybrid-pleg pods
  hybrid-pleg pods -n shop -o wide
  hybrid-pleg pods -o json | jq -r '.pods[].pod.name'
  hybrid-pleg pods --follow`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return view.Pods(cmd.Context(), opts)
		},
	}
	f := cmd.Flags()
	viewFlags(f, &opts.Options, view.Table)
	f.BoolVarP(&opts.Follow, "follow", "f", false, "go on, and show each pod that changes again")
	return cmd
}
