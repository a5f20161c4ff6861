// Command kubelet-pleg runs the kubelet's own generators of pod lifecycle events
// against a container runtime and writes what they tell in hybrid-pleg's format, to
// be compared with.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"runtime/debug"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/internal/shutdown"
	"github.com/hybrid-pleg/hybrid-pleg/peers/kubelet/arm"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/relist"
	"github.com/spf13/cobra"
)

// Exit statuses.
const (
	exitFailed = 1
	exitUsage  = 2
)

// leastPeriod keeps a slip of the unit from taking the runtime down.
const leastPeriod = 10 * time.Millisecond

// connectTimeout bounds the first look at the endpoint.
const connectTimeout = 10 * time.Second

// errUsage marks an error that comes from the command line.
var errUsage = errors.New("usage")

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	ctx, stop := shutdown.Context(context.Background(), os.Exit)
	defer stop()
	cmd := command(stdout, stderr)
	cmd.SetArgs(args)
	started := false
	cmd.PreRun = func(*cobra.Command, []string) { started = true }
	err := cmd.ExecuteContext(ctx)
	switch {
	case err == nil:
		return 0
	case !started, errors.Is(err, errUsage):
		fmt.Fprintf(stderr, "kubelet-pleg: %v\nSee kubelet-pleg --help.\n", err)
		return exitUsage
	default:
		fmt.Fprintf(stderr, "kubelet-pleg: %v\n", err)
		return exitFailed
	}
}

func command(stdout, stderr io.Writer) *cobra.Command {
	opts := arm.Options{Out: stdout}
	var level, address string
	cmd := &cobra.Command{
		Use:   "kubelet-pleg --runtime-endpoint unix:///path",
		Short: "The kubelet's own pod lifecycle events, in hybrid-pleg's format",
		Long: `Run the kubelet's GenericPLEG, and with --evented its EventedPLEG beside it, against
a container runtime, and tell what it tells in the format of hybrid-pleg.

Events go to standard output as a line of JSON each, the log to standard error.
SIGTERM, SIGINT and SIGHUP end it cleanly, a second one at once.`,
		Example: `  kubelet-pleg --runtime-endpoint unix:///run/containerd/containerd.sock
  kubelet-pleg --runtime-endpoint unix:///run/crio/crio.sock --evented`,
		Version:       kubernetesVersion(),
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var l slog.Level
			if err := l.UnmarshalText([]byte(level)); err != nil {
				return usage("--log-level: there is no level %q: give debug, info, warn or error", level)
			}
			opts.Log = slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: l}))
			if opts.RelistPeriod < leastPeriod {
				return usage("--relist-period: %s is too short: give at least %s; the kubelet has %s", opts.RelistPeriod, leastPeriod, arm.DefaultRelistPeriod)
			}
			if err := checkEndpoint(cmd.Context(), opts.Endpoint); err != nil {
				return err
			}
			if address != "" {
				var err error
				if opts.Metrics, err = (&net.ListenConfig{}).Listen(cmd.Context(), "tcp", address); err != nil {
					return usage("--http: %w: give an address that is free, such as 127.0.0.1:9101", err)
				}
			}
			opts.Log.Info("kubelet-pleg runs", "kubernetes", kubernetesVersion(), "runtime", opts.Endpoint,
				"evented", opts.Evented, "period", opts.RelistPeriod)
			return arm.Run(cmd.Context(), opts)
		},
	}
	cmd.SetOut(stdout)
	cmd.SetErr(stderr)
	cmd.SetVersionTemplate("kubelet-pleg: the generators of Kubernetes {{.Version}}\n")
	cmd.CompletionOptions.HiddenDefaultCmd = true
	f := cmd.Flags()
	f.StringVar(&opts.Endpoint, "runtime-endpoint", "", "the runtime's CRI socket, as unix:///path")
	f.BoolVar(&opts.Evented, "evented", false, "the EventedPLEG as well: look at a pod when the runtime announces that a container stopped")
	f.DurationVar(&opts.RelistPeriod, "relist-period", arm.DefaultRelistPeriod, "pause between relists of everything")
	f.StringVar(&address, "http", "", "serve the kubelet's metrics at /metrics on this address, such as 127.0.0.1:9101")
	f.StringVar(&level, "log-level", "info", "debug (the kubelet's -v=4), info, warn or error")
	return cmd
}

func usage(format string, args ...any) error {
	return usageError{fmt.Errorf(format, args...)}
}

// usageError marks an error without adding to what it says.
type usageError struct{ error }

func (e usageError) Unwrap() []error { return []error{errUsage, e.error} }

// checkEndpoint says what is wrong with an endpoint in plainer words than the
// kubelet's client does.
func checkEndpoint(ctx context.Context, endpoint string) error {
	if endpoint == "" {
		return usage("--runtime-endpoint: give the runtime's CRI socket, such as unix:///run/containerd/containerd.sock")
	}
	c, err := relist.NewClient(endpoint)
	if errors.Is(err, relist.ErrNotSocket) {
		return usage("--runtime-endpoint: %w", err)
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	return errors.Join(c.Connect(ctx), c.Close())
}

// kubernetesVersion is the version of Kubernetes that this was built with.
func kubernetesVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == "k8s.io/kubernetes" {
				return m.Version
			}
		}
	}
	return "of unknown version"
}
