package main

import (
	"os"
	"slices"

	"github.com/hybrid-pleg/hybrid-pleg/internal/config"
	"github.com/hybrid-pleg/hybrid-pleg/internal/daemon"
	"github.com/hybrid-pleg/hybrid-pleg/internal/endpoint"
	"github.com/hybrid-pleg/hybrid-pleg/internal/output"
	"github.com/hybrid-pleg/hybrid-pleg/internal/serve"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/merge"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/pleg"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func runCommand() *cobra.Command {
	opts := daemon.Options{Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.Getenv}
	var file string
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Tell what happens to the pods of a runtime, until stopped",
		Long: `Tell what happens to the pods of a runtime, until stopped.

Events go to standard output, the log to standard error. The endpoint auto is
$` + endpoint.EnvVar + `, else the first well-known socket of containerd, CRI-O
or cri-dockerd that answers, else the embedded runtime, which plays a small
workload in memory.

Agents on this node are served over gRPC and HTTP at the socket of --listen, which
its owner and group may connect to; HTTP is also served at --http-api, if given.

SIGTERM, SIGINT and SIGHUP end it cleanly, a second one at once.`,
		Example: `  hybrid-pleg run
  hybrid-pleg run --runtime-endpoint unix:///run/crio/crio.sock --output ndjson
  hybrid-pleg run --triggers none --relist-period 1s      # as the kubelet does
  hybrid-pleg run --config /etc/hybrid-pleg.yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if file != "" {
				if err := config.Load(file, cmd.Flags(), "config", "help"); err != nil {
					return err
				}
			}
			if !cmd.Flags().Changed("relist-period") && slices.Equal(opts.Triggers, []string{daemon.NoTriggers}) {
				opts.RelistPeriod = pleg.DefaultRelistPeriodDegraded
			}
			opts.ListenIfPossible = !cmd.Flags().Changed("listen")
			return daemon.Run(cmd.Context(), opts)
		},
	}
	f := cmd.Flags()
	f.StringVar(&opts.RuntimeEndpoint, "runtime-endpoint", endpoint.Auto, "the runtime's CRI socket: auto, embedded, or unix:///path")
	f.StringSliceVar(&opts.Triggers, "triggers", []string{"cgroup", "ebpf", "cri"}, "what makes for early relists: some of cgroup, ebpf, cri; or none")
	f.StringVar(&opts.CgroupRoot, "cgroup-root", "", "watch only this directory for containers' cgroups (default: found by itself)")
	f.DurationVar(&opts.RelistPeriod, "relist-period", pleg.DefaultRelistPeriod, "pause between relists of everything while all triggers work (1s by default with --triggers none)")
	f.DurationVar(&opts.RelistPeriodDegraded, "relist-period-degraded", pleg.DefaultRelistPeriodDegraded, "the same while a trigger is down or misses something")
	f.StringVar(&opts.Output, "output", string(output.Auto), "how to write events: ndjson, text, none; auto is text on a terminal, else ndjson")
	f.StringVar(&opts.HTTP, "http", daemon.DefaultHTTP, `serve /metrics, /healthz and /readyz at this loopback address; "" for no server`)
	agentFlags(f, &opts.Agents)
	f.StringVar(&opts.StateDir, "state-dir", "", "keep in this directory what was told, so that the next start goes on from there")
	f.IntVar(&opts.JournalEvents, "journal-events", merge.DefaultJournalEvents, "events kept for watchers that are behind or come back")
	f.Int64Var(&opts.JournalBytes, "journal-bytes", merge.DefaultJournalBytes, "memory that these may take, about")
	f.StringVar(&opts.LogLevel, "log-level", "info", "debug, info, warn or error")
	f.StringVar(&file, "config", "", "a YAML file that sets these flags by their names; the command line wins")
	return cmd
}

// agentFlags are the flags of serving agents.
func agentFlags(f *pflag.FlagSet, o *daemon.Agents) {
	f.StringVar(&o.Listen, "listen", serve.DefaultListen, `serve agents over gRPC and HTTP at this socket; "" for none`)
	f.StringVar(&o.ListenGroup, "listen-group", "", "let this group, by name or number, connect to it (default: the group the program runs as)")
	f.StringVar(&o.HTTPAPI, "http-api", "", "serve agents over HTTP at this address, too; beyond loopback with TLS only")
	f.StringVar(&o.TLS.Cert, "tls-cert", "", "the certificate for --http-api, a PEM file; read again when it changes, as the next two")
	f.StringVar(&o.TLS.Key, "tls-key", "", "its private key")
	f.StringVar(&o.TLS.ClientCA, "tls-client-ca", "", "the authorities whose client certificates are let in")
	f.IntVar(&o.Limits.Watchers, "max-watchers", serve.DefaultWatchers, "watches open at once")
	f.IntVar(&o.Limits.WatcherBuffer, "watcher-buffer", serve.DefaultWatcherBuffer, "bytes the kernel may hold for a client that does not read; the rest waits in the journal")
	f.IntVar(&o.Limits.MessageSize, "max-message-size", serve.DefaultMessageSize, "bytes in a gRPC message")
	f.Float64Var(&o.Limits.RequestsPerSecond, "max-requests-per-second", serve.DefaultRequestsPerSecond, "requests and new watches of all clients together")
}
