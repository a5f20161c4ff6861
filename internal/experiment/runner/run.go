package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/internal/experiment/arm"
	"github.com/hybrid-pleg/hybrid-pleg/internal/experiment/clock"
	"github.com/hybrid-pleg/hybrid-pleg/internal/experiment/plan"
	"github.com/hybrid-pleg/hybrid-pleg/internal/experiment/report"
	"github.com/hybrid-pleg/hybrid-pleg/internal/experiment/result"
	"github.com/hybrid-pleg/hybrid-pleg/internal/experiment/truth"
	"github.com/hybrid-pleg/hybrid-pleg/internal/experiment/workload"
	"github.com/hybrid-pleg/hybrid-pleg/internal/version"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// experiment is one that is being run. It belongs to one goroutine.
type experiment struct {
	*Ready
	progress *Progress
	wall     *clock.Wall
	ledger   *truth.Ledger
	site     *site
	driver   *workload.Driver
	kernel   *truth.Kernel
	events   *truth.Events
	ends     *truth.Ends
	// arms are those that run, or ran until they died, by the place in the plan.
	arms map[int]*arm.Arm
	// left is how long the rest takes, about.
	left time.Duration

	run         result.Run
	transitions []result.Transition
}

// clearUp bounds how long removing what was made may take, after Ctrl-C too.
const clearUp = 2 * time.Minute

// Run carries out the experiment and writes the results into its directory. When ctx
// ends it ends early, and writes what was measured until then, which is no error.
func (r *Ready) Run(ctx context.Context) error {
	if err := os.MkdirAll(r.opts.Output, 0o755); err != nil {
		return err
	}
	e := &experiment{
		Ready: r, progress: NewProgress(r.opts.Terminal), wall: clock.NewWall(), ledger: truth.NewLedger(),
		arms: map[int]*arm.Arm{}, left: r.Estimate(),
	}
	defer e.progress.Close()
	for _, n := range r.notes {
		e.note("%s", n)
	}
	e.begin()
	err := e.measure(ctx) //nolint:contextcheck // what clears up outlives ctx
	e.run.Interrupted = ctx.Err() != nil
	if e.run.Interrupted {
		err = nil // whatever failed, failed because of that
	}
	e.run.Ended = time.Now()
	if n := e.wall.Steps(); n > 0 {
		e.note("the wall clock was stepped %d times: when listings were begun is not known for certain around then; all other times are unaffected", n)
	}
	return errors.Join(err, e.write())
}

func (e *experiment) begin() {
	p := e.opts.Plan
	e.run = result.Run{
		Name: p.Name, Seed: p.Seed, Began: time.Now(), Version: version.Number(), Sequential: p.Sequential,
		Host: hostFacts().Host, Notes: e.run.Notes,
		Truth: result.Truth{Kernel: result.FromNone, Visible: result.FromNone, Lost: -1},
	}
	for i := range p.Arms {
		a := &p.Arms[i]
		e.run.Arms = append(e.run.Arms, result.Arm{
			Name: a.Name, Kind: a.Kind, Triggers: a.Triggers, Period: a.Period, PeriodDegraded: a.PeriodDegraded,
		})
	}
}

// note writes down what a reader of the results must know.
func (e *experiment) note(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	e.run.Notes = append(e.run.Notes, text)
	e.progress.Say("note: %s", text)
}

// stage shows what is being done. took is what the stage before was estimated at.
func (e *experiment) stage(what string, detail func() string) { e.progress.Stage(what, e.left, detail) }

// measure starts everything, does all phases, and ends everything.
func (e *experiment) measure(ctx context.Context) (err error) {
	if e.kubelet.toBuild() {
		e.stage("building kubelet-pleg, which takes minutes the first time", nil)
		if err := e.kubelet.build(ctx); err != nil {
			return err
		}
	}
	e.stage("starting "+e.opts.Runtime, nil)
	if e.site, err = e.openSite(ctx, e.ledger, e.progress); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.site.end()) }()
	e.run.Runtime = result.Runtime{Endpoint: e.opts.Runtime, Name: e.site.conn.RuntimeName, Version: e.site.conn.RuntimeVersion}
	if !e.real() {
		e.run.Runtime.StateLag = e.opts.Plan.StateLag.String()
	}
	if e.site.pid == 0 {
		e.note("what the runtime spends is not known: its process could not be found by its socket")
	}
	if err := e.recordTruth(); err != nil {
		return err
	}
	defer e.endTruth()

	ends := &truth.Ends{Ledger: e.ledger, Every: time.Second, Exited: e.exited}
	e.ends = ends
	e.driver = workload.NewDriver(e.site.conn, e.site.setting, ends)
	defer func() {
		e.stage("removing what was made", nil)
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), clearUp)
		defer cancel()
		err = errors.Join(err, e.driver.RemoveAll(bounded))
	}()
	// Before the removal, which they need not see.
	defer e.stopArms()

	var sampling sync.WaitGroup
	stop := make(chan struct{})
	sampling.Go(func() { e.sampleClocks(stop) })
	defer sampling.Wait()
	defer close(stop)
	return e.phases(ctx)
}

// sampleEvery is how often the clocks are compared.
const sampleEvery = 5 * time.Second

func (e *experiment) sampleClocks(stop <-chan struct{}) {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			e.wall.Sample()
		case <-stop:
			return
		}
	}
}

// recordTruth starts the recorders of a real runtime; the embedded one's account is
// there already.
func (e *experiment) recordTruth() (err error) {
	if !e.real() {
		e.run.Truth = result.Truth{Kernel: result.FromEmbedded, Visible: result.FromEmbedded}
		if e.opts.Truth == TruthNone {
			e.run.Truth.Kernel = result.FromNone
		}
		return nil
	}
	if e.opts.Truth != TruthNone {
		if e.kernel, err = truth.StartKernel(e.ledger); err != nil {
			return err
		}
		e.run.Truth.Kernel = result.FromEBPF
	}
	e.events = truth.StartEvents(e.site.conn, e.ledger)
	return nil
}

func (e *experiment) endTruth() {
	if e.kernel != nil {
		e.run.Truth.Lost = e.kernel.Lost()
		if err := e.kernel.Close(); err != nil {
			e.note("%v", err)
		}
	}
	if e.events != nil {
		if n := e.events.Breaks(); n > 0 && e.run.Truth.Visible == result.FromEvents {
			e.note("the runtime's event stream broke %d times: when states became visible around then was not observed", n)
		}
		e.events.Close()
	}
}

// eventsTime is how long the first event may take after the pod that makes for it.
const eventsTime = 5 * time.Second

// seeEvents finds out whether the runtime's event stream works, once there is a pod.
func (e *experiment) seeEvents(ctx context.Context) {
	if e.events == nil || e.run.Truth.Visible == result.FromEvents {
		return
	}
	if err := e.events.Works(ctx, eventsTime); err != nil {
		if ctx.Err() == nil {
			e.note("when the runtime showed a state was not observed: %v", err)
		}
		e.ends.Every = 50 * time.Millisecond
		return
	}
	e.run.Truth.Visible = result.FromEvents
}

// exited asks the runtime whether a container has ended.
func (e *experiment) exited(ctx context.Context, id string) (bool, error) {
	resp, err := e.site.conn.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: id})
	if err != nil {
		return false, err
	}
	return resp.GetStatus().GetState() == runtimeapi.ContainerState_CONTAINER_EXITED, nil
}

// write writes the results, and the report if anything was measured.
func (e *experiment) write() error {
	e.stage("writing the results", nil)
	dir := e.opts.Output
	p := *e.opts.Plan
	p.Workloads = append([]plan.Workload(nil), p.Workloads...)
	for i := range p.Workloads {
		// The plan is to be run again from here.
		if l := &p.Workloads[i].Lifetime; l.Kind == plan.FromFile {
			l.File = "lifetimes-" + p.Workloads[i].Name + ".txt"
			var text strings.Builder
			for _, d := range l.Observed {
				fmt.Fprintln(&text, d)
			}
			if err := result.WriteFile(dir, l.File, []byte(text.String())); err != nil {
				return err
			}
		}
	}
	asRun, err := p.YAML()
	if err != nil {
		return err
	}
	if err := errors.Join(result.WriteFile(dir, result.PlanFile, asRun), result.WriteRun(dir, e.run)); err != nil {
		return err
	}
	w, err := result.NewTransitionWriter(dir)
	if err != nil {
		return err
	}
	for _, t := range e.transitions {
		if err := w.Write(t); err != nil {
			return errors.Join(err, w.Close())
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	if len(e.run.Phases) == 0 {
		return nil
	}
	if _, err := report.Write(dir, report.Options{}); err != nil {
		return fmt.Errorf("the results are in %s, but the report can't be made: %w", dir, err)
	}
	e.progress.Close()
	fmt.Fprintf(e.opts.Stdout, "%s\n", filepath.Join(dir, result.ReportFile))
	return nil
}
