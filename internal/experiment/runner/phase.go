package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/internal/experiment/arm"
	"github.com/hybrid-pleg/hybrid-pleg/internal/experiment/clock"
	"github.com/hybrid-pleg/hybrid-pleg/internal/experiment/plan"
	"github.com/hybrid-pleg/hybrid-pleg/internal/experiment/result"
	"github.com/hybrid-pleg/hybrid-pleg/internal/experiment/workload"
)

// errNoArm says that there is nothing to measure.
var errNoArm = errors.New("no arm runs any more")

// phases does all repeats of all workloads.
func (e *experiment) phases(ctx context.Context) error {
	p := e.opts.Plan
	for repeat := range p.Repeats {
		for i := range p.Workloads {
			w := &p.Workloads[i]
			took := time.Now()
			e.stage(w.Name+": background", nil)
			if err := e.driver.Background(ctx, w.Background, w.PerPod, func(have int) {
				e.stage(w.Name+": background", func() string { return fmt.Sprintf("%d of %d containers", have, w.Background) })
			}); err != nil {
				return fmt.Errorf("workload %s: %w", w.Name, err)
			}
			e.left -= time.Since(took)
			one := e.together
			if p.Sequential {
				one = e.inTurn
			}
			if err := one(ctx, w, i, repeat); err != nil {
				return fmt.Errorf("workload %s: %w", w.Name, err)
			}
		}
	}
	return nil
}

// together plays a workload once before all arms.
func (e *experiment) together(ctx context.Context, w *plan.Workload, i, repeat int) error {
	if len(e.arms) == 0 {
		for n := range e.opts.Plan.Arms {
			e.startArm(n)
		}
		if err := e.ready(ctx); err != nil {
			return err
		}
	}
	e.catchUp(ctx)
	return e.pass(ctx, pass{w: w, index: i, repeat: repeat})
}

// inTurn plays a workload before each arm alone, and once before none, for what the
// runtime spends by itself.
func (e *experiment) inTurn(ctx context.Context, w *plan.Workload, i, repeat int) error {
	var base float64
	if e.site.pid == 0 {
		e.left -= e.passTime(e.schedules[scheduleKey{i, repeat}], w)
	} else if err := e.pass(ctx, pass{w: w, index: i, repeat: repeat, base: &base, alone: true}); err != nil {
		return err
	}
	for n := range e.opts.Plan.Arms {
		if e.run.Arms[n].Failed != "" {
			e.left -= e.passTime(e.schedules[scheduleKey{i, repeat}], w)
			continue
		}
		e.startArm(n)
		if err := e.ready(ctx); err != nil && !errors.Is(err, errNoArm) {
			return err
		}
		if e.runs(n) {
			e.catchUp(ctx)
			err := e.pass(ctx, pass{w: w, index: i, repeat: repeat, arm: e.opts.Plan.Arms[n].Name, base: &base})
			if err != nil && !errors.Is(err, errNoArm) {
				return err
			}
		}
		e.stopArms()
	}
	return nil
}

func (e *experiment) startArm(n int) {
	p := &e.opts.Plan.Arms[n]
	command := arm.Command(p, arm.Programs{Hybrid: e.opts.Program, Kubelet: e.kubelet.path}, e.site.target)
	to := &e.run.Arms[n]
	to.Command = command
	if p.Kind == plan.Hybrid {
		to.Triggers = arm.Triggers(p, e.site.target)
	}
	a, err := arm.Start(p, command, e.wall)
	if err != nil {
		e.failed(n, err.Error())
		return
	}
	e.arms[n] = a
}

func (e *experiment) failed(n int, why string) {
	if e.run.Arms[n].Failed == "" {
		e.run.Arms[n].Failed = why
		e.note("arm %s: %s", e.run.Arms[n].Name, why)
	}
}

// runs reports whether an arm runs, and writes down when it no longer does.
func (e *experiment) runs(n int) bool {
	a := e.arms[n]
	if a != nil && a.Ended() {
		e.failed(n, a.Failed())
	}
	return a != nil && e.run.Arms[n].Failed == ""
}

// ready waits for all arms that have been started.
func (e *experiment) ready(ctx context.Context) error {
	e.stage("waiting for the arms", nil)
	any := false
	for n := range e.opts.Plan.Arms {
		a := e.arms[n]
		if a == nil {
			continue
		}
		notes, err := a.Ready(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		for _, note := range notes {
			e.note("arm %s: %s", a.Plan.Name, note)
		}
		if err != nil {
			e.failed(n, err.Error())
			a.Stop()
			continue
		}
		any = true
	}
	if !any {
		return errNoArm
	}
	return nil
}

// How long arms may take to tell of the background: with thousands of containers they
// have thousands of details to read.
const (
	catchUpTime = 20 * time.Second
	catchUpEach = 10 * time.Millisecond
)

// catchUp waits until the arms have told of the background, so that what they are busy
// with at first is no part of what is measured. The event stream tells nothing of
// what was there before.
func (e *experiment) catchUp(ctx context.Context) {
	running := e.driver.Running()
	deadline := time.Now().Add(catchUpTime + time.Duration(len(running))*catchUpEach)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for n := range e.opts.Plan.Arms {
		for e.runs(n) && e.opts.Plan.Arms[n].Kind != plan.CRIEvents {
			a := e.arms[n]
			missing := slices.IndexFunc(running, func(id string) bool { return !a.Has(id, result.Start) })
			if missing < 0 {
				break
			}
			running = append(running[missing:], running[:missing]...) // begin with it next time
			if time.Now().After(deadline) {
				e.note("arm %s: it has not told of all %d containers in the background", a.Plan.Name, len(running))
				break
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	}
}

func (e *experiment) stopArms() {
	for n, a := range e.arms {
		e.runs(n) // one that ended before did so by itself
		a.Stop()
		if bad := a.Bad(); bad > 0 {
			e.note("arm %s: %d lines that it told were no events", a.Plan.Name, bad)
		}
		delete(e.arms, n)
	}
}

// pass is one play of a workload.
type pass struct {
	w             *plan.Workload
	index, repeat int
	// arm is that of a sequential run; alone: there is none.
	arm   string
	alone bool
	// base is what the runtime spends a second without any arm: set by the pass without,
	// and taken off in the others. Nil in a run side by side.
	base *float64
}

// lateBy is from which lateness on it is told that a workload fell behind.
const lateBy = time.Second

func (e *experiment) pass(ctx context.Context, p pass) (err error) {
	s := e.schedules[scheduleKey{p.index, p.repeat}]
	defer func(left time.Duration) { e.left = left - e.passTime(s, p.w) }(e.left)
	pods, err := e.podsFor(ctx, p.w, s)
	if err != nil {
		return err
	}
	defer func() {
		if ctx.Err() == nil { // else RemoveAll does
			err = errors.Join(err, e.driver.Remove(ctx, pods))
		}
	}()
	e.seeEvents(ctx)
	what := p.w.Name
	if p.arm != "" {
		what += " before " + p.arm
	} else if p.alone {
		what += " before no arm"
	}
	if n := e.opts.Plan.Repeats; n > 1 {
		what += fmt.Sprintf(", %d of %d", p.repeat+1, n)
	}
	e.stage(what, func() string {
		if s.Counted() == 0 {
			return ""
		}
		return fmt.Sprintf("%d of %d containers", e.driver.Started(), s.Counted())
	})

	begin := time.Now().Add(s.WarmUp)
	costs := e.measureCosts(ctx, p, begin, s.Length)
	phase := result.Phase{
		Name: p.w.Name, Arm: p.arm, Repeat: p.repeat, Background: p.w.Background, Planned: s.Counted(),
		Began: clock.Of(begin),
	}
	lives := e.driver.Play(ctx, p.w, s, pods, begin)
	costs.wait()
	e.settle(ctx, lives)
	phase.Ended = clock.Now()
	// One that has died since is told of before it is judged.
	for n := range e.arms {
		e.runs(n)
	}
	if phase.Ended < phase.Began { // interrupted while it warmed up
		phase.Began = phase.Ended
	}
	if p.alone {
		e.ledger.Clear()
		return ctx.Err()
	}
	e.count(&phase, lives)
	e.run.Phases = append(e.run.Phases, phase)
	e.transitions = append(e.transitions, match(p.w.Name, p.repeat, lives, e.ledger.Of, e.witnesses(ctx, phase.Ended))...)
	e.strange(p)
	e.ledger.Clear()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	for n := range e.arms {
		if e.runs(n) {
			return nil
		}
	}
	return errNoArm
}

func (e *experiment) podsFor(ctx context.Context, w *plan.Workload, s *workload.Schedule) ([]*workload.Pod, error) {
	if w.Churn != plan.ChurnContainers || len(s.Starts) == 0 {
		return nil, nil
	}
	return e.driver.Pods(ctx, w.Pods)
}

// count fills in how many containers there were, and notes what went wrong.
func (e *experiment) count(phase *result.Phase, lives []workload.Life) {
	var late time.Duration
	var first error
	failures := 0
	for i := range lives {
		l := &lives[i]
		late = max(late, l.Late)
		if l.Counts && l.Started {
			phase.Started++
		}
		if l.Counts && !l.Started && l.Err != nil {
			phase.FailedStarts++
		}
		if l.Err != nil {
			failures++
			if first == nil {
				first = l.Err
			}
		}
	}
	if failures > 0 {
		e.note("workload %s: %d of %d containers went wrong, the first by: %v", phase.Name, failures, len(lives), first)
	}
	if late > lateBy {
		e.note("workload %s: this host could not keep up: a container was begun with %s after its time", phase.Name, late.Round(100*time.Millisecond))
	}
}

// witnesses are the arms that watched the phase which ended at end.
func (e *experiment) witnesses(ctx context.Context, end int64) []witness {
	var out []witness
	for n := range e.opts.Plan.Arms {
		a := e.arms[n]
		if a == nil || !a.WasReady() {
			continue
		}
		w := witness{name: a.Plan.Name, grace: a.Plan.Period + 2*time.Second, told: a.Of}
		switch {
		case !e.runs(n):
			w.until = min(a.EndedAt(), end)
		case ctx.Err() != nil:
			w.until = end
		}
		out = append(out, w)
	}
	return out
}

// strange collects events of containers that never were.
func (e *experiment) strange(p pass) {
	pods, containers := e.driver.Made()
	for n, a := range e.arms {
		for _, f := range a.Strange(containers, pods) {
			f.Phase, f.Repeat = p.w.Name, p.repeat
			e.run.Arms[n].False = append(e.run.Arms[n].False, f)
		}
	}
}

// settle waits until every arm has told everything that it will tell.
func (e *experiment) settle(ctx context.Context, lives []workload.Life) {
	deadline := time.Now().Add(e.opts.Plan.SettleTime())
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for ctx.Err() == nil && time.Now().Before(deadline) && !e.allTold(lives) {
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

func (e *experiment) allTold(lives []workload.Life) bool {
	for n, a := range e.arms {
		if !e.runs(n) {
			continue
		}
		for i := range lives {
			l := &lives[i]
			if !l.Counts || !l.Started {
				continue
			}
			for _, kind := range []string{result.Start, result.Exit, result.Removed} {
				if !a.Has(l.Container, kind) {
					return false
				}
			}
		}
	}
	return true
}
