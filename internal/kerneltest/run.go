package kerneltest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// Options say what to run.
type Options struct {
	// Short runs the one kernel of every change.
	Short bool
	// Choice leaves some out.
	Choice Choice
	// Update fetches the kernels anew.
	Update bool
	// Mirror is Debian's archive; empty stands for the one that the host's apt uses.
	Mirror string
	// Accel is tcg or kvm; empty means tcg, which works everywhere.
	Accel string
	// Parallel is how many machines run at a time; 0 stands for as many as there are processors:
	// a machine has two, but mostly something to do for one.
	Parallel int
	// Out takes what is being done, a line each.
	Out io.Writer
}

// ErrOptions marks an error of [Options].
var ErrOptions = errors.New("usage")

// Test runs the matrix and returns what came of each machine. An error means that it could not be
// run, or not to its end; failed tests are in the results. Machines and temporary files are
// gone when it returns.
func Test(ctx context.Context, o Options) (results []Result, err error) {
	runs := plan()
	if o.Short {
		runs = shortPlan()
	}
	runs, err = o.Choice.of(runs)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrOptions, err)
	}
	if o.Accel == "" {
		o.Accel = "tcg"
	}
	if o.Accel != "tcg" && o.Accel != "kvm" {
		return nil, fmt.Errorf("%w: there is no accelerator %q: give tcg or kvm", ErrOptions, o.Accel)
	}
	if o.Parallel < 0 {
		return nil, fmt.Errorf("%w: %d machines at a time are none", ErrOptions, o.Parallel)
	}
	if o.Parallel == 0 {
		o.Parallel = runtime.NumCPU()
	}
	var mu sync.Mutex
	say := func(text string) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(o.Out, "kerneltest: %s\n", text)
	}
	root, err := checkout()
	if err != nil {
		return nil, err
	}
	c := cache{filepath.Join(root, ".cache", "kernels")}

	var archs []string
	var wanted []Kernel
	for _, r := range runs {
		archs = append(archs, r.Kernel.Arch)
		wanted = append(wanted, r.Kernel)
	}
	slices.Sort(archs)
	archs = slices.Compact(archs)
	if err := needPrograms(ctx, archs, say); err != nil {
		return nil, err
	}
	if o.Update {
		if err := os.RemoveAll(c.dir); err != nil {
			return nil, err
		}
	}
	if err := c.fill(ctx, wanted, strings.TrimSuffix(o.Mirror, "/"), say); err != nil {
		return nil, err
	}

	dir, err := os.MkdirTemp("", "kerneltest-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	logs := filepath.Join(c.dir, "log")
	if err := os.MkdirAll(logs, 0o755); err != nil {
		return nil, err
	}
	b := builder{root: root, dir: dir, cache: c, say: say}
	images := make(map[string]string)
	for _, arch := range archs {
		say("building the disk for " + arch)
		var suites []Suite
		for _, r := range runs {
			if r.Kernel.Arch == arch {
				suites = append(suites, r.Suites...)
			}
		}
		if images[arch], err = b.disk(ctx, arch, suites); err != nil {
			return nil, err
		}
	}
	results = make([]Result, len(runs))
	var group errgroup.Group
	group.SetLimit(o.Parallel)
	for _, i := range byLength(runs) {
		r := runs[i]
		initramfs, err := b.initramfs(r.Kernel, guestInitramfs)
		if err != nil {
			return nil, errors.Join(err, group.Wait())
		}
		m := machine{
			run: r, vmlinuz: filepath.Join(c.kernel(r.Kernel), "vmlinuz"), initramfs: initramfs,
			image: images[r.Kernel.Arch], accel: o.Accel, console: filepath.Join(logs, fileName(r)+".console"),
		}
		group.Go(func() error {
			results[i] = tryOnce(ctx, m, filepath.Join(logs, fileName(r)+".log"), say)
			return ctx.Err()
		})
	}
	return results, group.Wait()
}

// byLength is in which order to start machines, so that none is left running alone for long: those
// with the most to do first, and before them those that are emulated by one thread.
func byLength(runs []Run) []int {
	order := make([]int, len(runs))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		length := func(r Run) int {
			if r.Kernel.OneThread {
				return 100
			}
			return len(r.Suites)
		}
		return length(runs[b]) - length(runs[a])
	})
	return order
}

// tryOnce runs a machine and tells what comes of it. All that the machine says is kept in logFile.
func tryOnce(ctx context.Context, m machine, logFile string, say func(string)) (result Result) {
	result.Run = m.run
	log, err := os.Create(logFile)
	if err != nil {
		result.Err = err
		return result
	}
	defer log.Close()
	if result.Err = ctx.Err(); result.Err != nil {
		return result
	}
	began := time.Now()
	say(m.run.Name() + " ...")
	r, w := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := m.start(ctx, w)
		_ = w.Close() // of a pipe, which can't fail
		ended <- err
	}()
	readErr := readResult(r, log, &result, func(s SuiteResult) {
		if ctx.Err() != nil {
			return // interrupted, not failed
		}
		line := fmt.Sprintf("%s: %-10s", m.run.Name(), s.Name)
		if s.Code == 0 {
			line += fmt.Sprintf(" ok     %.0f s, %d passed, %d skipped", s.Took.Seconds(), s.Passed, s.Skipped)
		} else {
			line += fmt.Sprintf(" FAILED (code %d) %s", s.Code, strings.Join(s.Failures, " "))
		}
		say(line)
	})
	r.CloseWithError(errors.New("what the machine says is read no more"))
	result.Err = errors.Join(readErr, <-ended)
	result.Took = time.Since(began)
	if !result.OK() && ctx.Err() == nil {
		text := "what it printed is in " + logFile + " and, the kernel, in " + m.console
		if result.Err != nil {
			text = result.Err.Error() + "; " + text
		}
		say(m.run.Name() + ": FAILED: " + text)
	}
	return result
}

func fileName(r Run) string { return strings.ReplaceAll(r.Name(), " ", "-") }

// checkout returns the root of the checkout that the working directory is in.
func checkout() (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		if exists(filepath.Join(dir, "internal/kerneltest/guest/init.sh")) {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("%s is not in a checkout of hybrid-pleg: run this from one", start)
		}
	}
}
