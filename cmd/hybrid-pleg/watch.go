package main

import (
	"os"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/internal/view"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/client"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func watchCommand() *cobra.Command {
	var opts view.WatchOptions
	cmd := &cobra.Command{
		Use:   "watch",
		Short: "Show what happens to the pods of a running hybrid-pleg",
		Long: `Show what happens to the pods of a running hybrid-pleg, until stopped.

It connects again by itself when the daemon is restarted, and shows each change
once. On a terminal a line at the bottom tells how things stand.

As JSON it writes what a GET of /v1/events gives: all pods as they are, {"synced"},
then events, each with the token to go on from; and {"reset"} before pods that
replace all that was known. With --token-file it keeps the token of what it has
written, and goes on from there when it is started again with the same filter.`,
		Example: `  hybrid-pleg watch
  hybrid-pleg watch -n shop -l 'app=checkout' --type ContainerDied
  hybrid-pleg watch -o ndjson --token-file /var/lib/agent/token | agent`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return view.Watch(cmd.Context(), opts)
		},
	}
	f := cmd.Flags()
	viewFlags(f, &opts.Options, view.Auto)
	f.StringVar(&opts.Since, "since", "", "begin after the place that this token names, not with all pods")
	f.StringVar(&opts.TokenFile, "token-file", "", "begin after the token in this file, if there is one, and keep the latest there")
	f.StringSliceVar(&opts.Types, "type", nil, "events of this type only, such as ContainerDied; may be repeated")
	f.StringVar(&opts.Subject, "subject", "", "events of containers or of sandboxes only: container, sandbox")
	f.BoolVar(&opts.NoSnapshot, "no-snapshot", false, "leave out the pods at the beginning (json and ndjson)")
	return cmd
}

// viewFlags are the flags of the commands that show what a daemon tells.
func viewFlags(f *pflag.FlagSet, o *view.Options, format view.Format) {
	o.Stdout, o.Stderr, o.Getenv = os.Stdout, os.Stderr, os.Getenv
	f.StringVar(&o.Address, "address", client.DefaultAddress, "the daemon's socket, as given to its --listen")
	f.StringSliceVarP(&o.Namespaces, "namespace", "n", nil, "pods of this namespace only; may be repeated")
	f.StringSliceVar(&o.PodNames, "pod", nil, "pods of this name only; may be repeated")
	f.StringSliceVar(&o.PodUIDs, "uid", nil, "the pod of this UID only; may be repeated")
	f.StringVarP(&o.Selector, "selector", "l", "", "pods with such labels only, in Kubernetes' syntax: app=web,tier!=cache")
	f.StringVarP(&o.Output, "output", "o", string(format), "table, wide, json or ndjson; auto is a table on a terminal, else ndjson")
	f.DurationVar(&o.ConnectTimeout, "connect-timeout", time.Second, "how long to wait for the daemon at the beginning; 0 for ever")
}
