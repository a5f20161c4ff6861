// Command kerneltest runs the tests that have to do with the kernel in virtual machines with other
// kernels than this machine's: see docs/kernels.md.
//
//	kerneltest [-short] [-kernel NAME,...] [-layout NAME,...] [-suite NAME,...] [-table FILE]
//	kerneltest -parts DIR -kernel NAME,...
//
// The second writes kernels and tests into a folder, for other machines: scripts/vagrant uses it.
//
// It ends with code 1 when a test fails and when a machine does not come up.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/internal/kerneltest"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
	case errors.Is(err, errUsage):
		os.Exit(2)
	case errors.Is(err, kerneltest.ErrOptions):
		fmt.Fprintf(os.Stderr, "kerneltest: %v\n", err)
		os.Exit(2)
	default:
		fmt.Fprintf(os.Stderr, "kerneltest: %v\n", err)
		os.Exit(1)
	}
}

// errUsage marks errors that were told already, with the flags.
var errUsage = errors.New("usage")

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("kerneltest", flag.ContinueOnError)
	flags.SetOutput(stderr)
	short := flags.Bool("short", false, "only the one kernel that every change is tried with")
	kernels := flags.String("kernel", "", "only these kernels, such as 5.10,newest")
	layouts := flags.String("layout", "", "only these cgroup layouts: some of v2, v1, hybrid")
	suites := flags.String("suite", "", "only these suites, such as probe,containerd")
	update := flags.Bool("update", false, "fetch the kernels anew")
	mirror := flags.String("mirror", "", "where Debian's archive is (default: where the host's apt has it)")
	accel := flags.String("accel", "tcg", "QEMU's accelerator: tcg (works everywhere) or kvm")
	parallel := flags.Int("parallel", 0, "how many machines at a time (0: as many as there are processors)")
	table := flags.String("table", "", "write the table into this Markdown file, if all was run")
	parts := flags.String("parts", "", "write the kernels of -kernel, and the end-to-end tests, into this folder, and run nothing")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return err
		}
		return errUsage
	}
	if flags.NArg() > 0 {
		fmt.Fprintf(stderr, "kerneltest: %q is no flag, and there are no arguments\n", flags.Arg(0))
		flags.Usage()
		return errUsage
	}
	if *parts != "" {
		if *kernels == "" || *short || *layouts != "" || *suites != "" || *table != "" {
			fmt.Fprintln(stderr, "kerneltest: -parts needs -kernel, and goes with -mirror alone")
			return errUsage
		}
		return kerneltest.WriteParts(ctx, kerneltest.PartsOptions{Dir: *parts, Kernels: words(*kernels), Mirror: *mirror, Out: stderr})
	}
	choice := kerneltest.Choice{Kernels: words(*kernels), Layouts: words(*layouts), Suites: words(*suites)}
	if *table != "" && (*short || !choice.All()) {
		fmt.Fprintln(stderr, "kerneltest: -table needs all runs: leave out -short, -kernel, -layout and -suite")
		return errUsage
	}

	began := time.Now()
	results, err := kerneltest.Test(ctx, kerneltest.Options{
		Short: *short, Choice: choice, Update: *update, Mirror: *mirror, Accel: *accel,
		Parallel: *parallel, Out: stderr,
	})
	if err != nil {
		return err
	}
	text := kerneltest.Table(results)
	fmt.Fprintf(stdout, "\n%s\n", text)
	failed := 0
	for _, r := range results {
		if !r.OK() {
			failed++
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d machines failed", failed, len(results))
	}
	fmt.Fprintf(stderr, "kerneltest: %d machines, %.0f s: all passed\n", len(results), time.Since(began).Seconds())
	if *table == "" {
		return nil
	}
	return kerneltest.WriteTable(*table, text)
}

func words(list string) []string {
	if list == "" {
		return nil
	}
	return strings.Split(list, ",")
}
