package runner

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/internal/endpoint"
	"github.com/hybrid-pleg/hybrid-pleg/internal/experiment/arm"
	"github.com/hybrid-pleg/hybrid-pleg/internal/experiment/plan"
	"github.com/hybrid-pleg/hybrid-pleg/internal/experiment/workload"
	"github.com/hybrid-pleg/hybrid-pleg/internal/testruntime"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/trigger/ebpf"
)

// mostEmbedded is how many containers the embedded runtime takes.
const mostEmbedded = 10_000

// Ready is an experiment that can be run.
type Ready struct {
	opts      Options
	schedules map[scheduleKey]*workload.Schedule
	kubelet   kubelet
	notes     []string
}

type scheduleKey struct{ workload, repeat int }

// Check refuses what can't work. All that is wrong is told at once; the error wraps
// [ErrRefused]. Nothing has been started or made then.
func Check(ctx context.Context, o Options) (*Ready, error) {
	r := &Ready{opts: o, schedules: map[scheduleKey]*workload.Schedule{}}
	for i := range o.Plan.Workloads {
		for repeat := range o.Plan.Repeats {
			r.schedules[scheduleKey{i, repeat}] = workload.Make(&o.Plan.Workloads[i], o.Plan.WarmUp, o.Plan.Seed, i, repeat)
		}
	}
	var errs []error
	for _, check := range []func(context.Context) error{
		r.checkRuntime, r.checkTruth, r.checkArms, r.checkCapacity, r.checkOutput,
	} {
		errs = append(errs, check(ctx))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	return r, nil
}

func (r *Ready) real() bool { return r.opts.Runtime != Embedded }

// foreign reports whether the runtime is not the experiment's own.
func (r *Ready) foreign() bool { return r.real() && r.opts.Runtime != Containerd }

func (r *Ready) checkRuntime(ctx context.Context) error {
	switch r.opts.Runtime {
	case Embedded:
		return nil
	case Containerd:
		if err := testruntime.Check(); err != nil {
			return fmt.Errorf("--runtime containerd: %w; --runtime embedded needs nothing", err)
		}
		return nil
	}
	choice, err := (endpoint.Resolver{Getenv: r.opts.Getenv}).Resolve(ctx, r.opts.Runtime)
	switch {
	case err != nil:
		return fmt.Errorf("--runtime: %w", err)
	case choice.Endpoint == "":
		return fmt.Errorf("--runtime %s: %s", r.opts.Runtime, choice.Why)
	case r.opts.Image == "":
		return fmt.Errorf("--runtime %s: say with --image which image its containers are to run; the runtime must have it already", r.opts.Runtime)
	}
	r.opts.Runtime = choice.Endpoint
	if arm.Running("kubelet") {
		r.notes = append(r.notes, "a kubelet runs on this host: if it uses this runtime, it removes pods that it does not know, and its own calls are among what the runtime spends")
	}
	return r.checkForeign(ctx)
}

// checkForeign looks whether a runtime that is not the experiment's own is fit for it.
func (r *Ready) checkForeign(ctx context.Context) error {
	conn, err := dial(ctx, r.opts.Runtime)
	if err != nil {
		return fmt.Errorf("--runtime: %w", err)
	}
	defer conn.Close()
	if err := hasImage(ctx, conn, r.opts.Image); err != nil {
		return fmt.Errorf("--image: %w", err)
	}
	left, err := workload.Left(ctx, conn)
	if err != nil {
		return fmt.Errorf("--runtime: %w", err)
	}
	if len(left) > 0 {
		return fmt.Errorf("%d pods of an earlier experiment are left on this runtime: remove them with hybrid-pleg experiment cleanup --runtime-endpoint %s", len(left), r.opts.Runtime)
	}
	return nil
}

func (r *Ready) checkTruth(context.Context) error {
	switch {
	case r.opts.Truth != TruthAuto && r.opts.Truth != TruthNone:
		return fmt.Errorf("--truth: %q is neither %s nor %s", r.opts.Truth, TruthAuto, TruthNone)
	case r.opts.Truth == TruthNone || !r.real():
		return nil
	}
	if err := ebpf.Probe(); err != nil {
		return fmt.Errorf("true start and exit times can't be had: %w; with --truth none latencies count from when the runtime shows a state", err)
	}
	return nil
}

// checkArms leaves out arms that are optional and can't be had.
func (r *Ready) checkArms(ctx context.Context) error {
	var errs []error
	needsKubelet := slices.ContainsFunc(r.opts.Plan.Arms, func(a plan.Arm) bool { return a.Kubelet() })
	var kubeletErr error
	if needsKubelet {
		r.kubelet, kubeletErr = findKubelet(r.opts.Kubelet)
	}
	p := *r.opts.Plan
	p.Arms = nil
	for _, a := range r.opts.Plan.Arms {
		err := r.checkArm(&a, kubeletErr)
		switch {
		case err == nil:
			p.Arms = append(p.Arms, a)
		case a.Optional:
			r.notes = append(r.notes, fmt.Sprintf("arm %s is left out: %v", a.Name, err))
		default:
			errs = append(errs, fmt.Errorf("arm %s: %w", a.Name, err))
		}
	}
	r.opts.Plan = &p
	if len(p.Arms) == 0 && len(errs) == 0 {
		errs = append(errs, errors.New("no arm is left"))
	}
	return errors.Join(errs...)
}

func (r *Ready) checkArm(a *plan.Arm, kubeletErr error) error {
	if a.Kubelet() {
		return kubeletErr
	}
	if a.Kind == plan.Hybrid && slices.Contains(a.Triggers, "ebpf") {
		if !r.real() {
			if len(a.Triggers) == 1 {
				return errors.New("the trigger ebpf sees nothing of the embedded runtime's containers, which are no processes")
			}
			r.notes = append(r.notes, fmt.Sprintf("arm %s does without its trigger ebpf: the embedded runtime's containers are no processes that it could see", a.Name))
			return nil
		}
		if err := ebpf.Probe(); err != nil {
			return fmt.Errorf("its trigger ebpf can't be had: %w", err)
		}
	}
	return nil
}

// What a container takes of a host, about: a pod's shim and sandbox, and a small
// program in each container.
const (
	memoryPerPod       = 20 << 20
	memoryPerContainer = 12 << 20
	threadsPerPod      = 16
	threadsPerOne      = 10
)

// mostAtATime is how many containers and pods there are at once, at most.
func (r *Ready) mostAtATime() (containers, pods int, of *plan.Workload) {
	for i := range r.opts.Plan.Workloads {
		w := &r.opts.Plan.Workloads[i]
		n, p := w.Background, (w.Background+w.PerPod-1)/w.PerPod
		for repeat := range r.opts.Plan.Repeats {
			s := r.schedules[scheduleKey{i, repeat}]
			churning := min(s.MostAtATime(w.RemovalDelay+time.Second), w.Parallel)
			n = max(n, w.Background+churning)
			if w.Churn == plan.ChurnPods {
				p = max(p, (w.Background+w.PerPod-1)/w.PerPod+churning)
			}
		}
		if w.Churn == plan.ChurnContainers && !w.Arrivals.None() {
			p += w.Pods
		}
		if n > containers || of == nil {
			containers, of = n, w
		}
		pods = max(pods, p)
	}
	return containers, pods, of
}

func (r *Ready) checkCapacity(context.Context) error {
	n, pods, w := r.mostAtATime()
	at := w.Where("background")
	if !r.real() {
		if n > mostEmbedded {
			return fmt.Errorf("%s: workload %s has up to %d containers at a time, and the embedded runtime takes %d", at, w.Name, n, mostEmbedded)
		}
		return nil
	}
	h := hostFacts()
	if need := int64(pods)*memoryPerPod + int64(n)*memoryPerContainer; h.memoryFree > 0 && need > h.memoryFree {
		return fmt.Errorf("%s: workload %s has up to %d containers in %d pods at a time, which take about %d MiB, and %d MiB are free", at, w.Name, n, pods, need>>20, h.memoryFree>>20)
	}
	if need := int64(pods)*threadsPerPod + int64(n)*threadsPerOne; h.threadsFree > 0 && need > h.threadsFree {
		return fmt.Errorf("%s: workload %s has up to %d containers in %d pods at a time, which take about %d threads, and this system allows %d more", at, w.Name, n, pods, need, h.threadsFree)
	}
	return nil
}

// What results take on disk: a transition's line with one entry an arm, twice (CSV),
// and the report.
const (
	bytesPerTransition = 400
	bytesPerTold       = 400
	bytesBesides       = 32 << 20
)

func (r *Ready) checkOutput(context.Context) error {
	if r.opts.Output == "" {
		return errors.New("give a directory for the results with --output")
	}
	entries, err := os.ReadDir(r.opts.Output)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return fmt.Errorf("--output: %w", err)
	case len(entries) > 0:
		return fmt.Errorf("--output: %s is not empty: give a new directory", r.opts.Output)
	}
	parent, err := existing(r.opts.Output)
	if err != nil {
		return fmt.Errorf("--output: %w", err)
	}
	need := int64(bytesBesides)
	for _, s := range r.schedules {
		need += int64(3*s.Counted()) * int64(bytesPerTransition+bytesPerTold*len(r.opts.Plan.Arms))
	}
	if free, err := freeDisk(parent); err == nil && free < need {
		return fmt.Errorf("--output: the results take about %d MiB, and %s has %d MiB free", need>>20, parent, free>>20)
	}
	return nil
}

// existing is the nearest directory above, or at, a path that exists.
func existing(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	for {
		info, err := os.Stat(path)
		switch {
		case err == nil && !info.IsDir():
			return "", fmt.Errorf("%s is no directory", path)
		case err == nil:
			return path, nil
		case !errors.Is(err, fs.ErrNotExist) || path == filepath.Dir(path):
			return "", err
		}
		path = filepath.Dir(path)
	}
}
