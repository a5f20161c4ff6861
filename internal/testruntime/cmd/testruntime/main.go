// Command testruntime starts a container runtime to play with: the one that the
// tests use. It runs until it is interrupted and leaves nothing behind.
//
//	testruntime [run] [--pods N] [--cgroup-root PATH] [--dir DIR] [--log]
//	testruntime build
//
// The second form only builds the runtime's binaries and the image, or finds them
// built, and prints where they are.
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

	"k8s.io/klog/v2"

	"github.com/hybrid-pleg/hybrid-pleg/internal/testruntime"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
	case errors.Is(err, errUsage):
		os.Exit(2)
	default:
		fmt.Fprintf(os.Stderr, "testruntime: %v\n", err)
		os.Exit(1)
	}
}

// errUsage marks errors that were told already, with the flags.
var errUsage = errors.New("usage")

func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	flags := flag.NewFlagSet("testruntime", flag.ContinueOnError)
	flags.SetOutput(stderr)
	pods := flags.Int("pods", 0, "keep so many pods coming and going")
	cgroupRoot := flags.String("cgroup-root", "", "the cgroup above kubepods, / for a kubelet's default (empty: a private one)")
	dir := flags.String("dir", "", "where to make the private directory (empty: the folder for temporary files)")
	log := flags.Bool("log", false, "show containerd's log")
	command := "run"
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		command, args = args[0], args[1:]
	}
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return err
		}
		return errUsage
	}
	if flags.NArg() > 0 || *pods < 0 || (command != "run" && command != "build") {
		fmt.Fprintln(stderr, "testruntime: the commands are run and build, without arguments; --pods is not negative")
		flags.Usage()
		return errUsage
	}
	if command == "build" {
		return buildOnly(ctx, stdout, stderr)
	}

	o := testruntime.Options{Dir: *dir, CgroupRoot: *cgroupRoot, Progress: stderr}
	if *log {
		o.Log = stderr
	}
	// The CRI client would log errors that are returned as well.
	ctx = klog.NewContext(ctx, klog.Logger{})
	r, err := testruntime.Start(ctx, o)
	if err != nil {
		return err
	}
	defer func() { //nolint:contextcheck // ctx has ended
		err = errors.Join(err, r.Close())
		for _, line := range r.Leftovers() {
			err = errors.Join(err, fmt.Errorf("left behind: %s", line))
		}
		if err == nil {
			fmt.Fprintln(stdout, "\nThe runtime has ended; nothing is left of it.")
		}
	}()
	if err := welcome(ctx, r, stdout); err != nil {
		return err
	}
	if *pods > 0 {
		if err := churn(ctx, r, *pods); err != nil && ctx.Err() == nil {
			return err
		}
	}
	<-ctx.Done()
	return nil
}

func buildOnly(ctx context.Context, stdout, stderr io.Writer) error {
	bin, err := testruntime.Build(ctx, stderr)
	if err != nil {
		return err
	}
	image, err := testruntime.BuildImage(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "%s\n%s\n", bin, image)
	return nil
}
