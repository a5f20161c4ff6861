package result

import (
	"errors"
	"fmt"
	"slices"
)

// check says what is wrong with a run, as a reader would put it.
func (r *Run) check() error {
	switch {
	case r.Format > Format:
		return fmt.Errorf("it has format %d, and this version reads up to %d: use the version that wrote it (%s), or a newer one", r.Format, Format, r.Version)
	case r.Format < 1:
		return errors.New("it says no format: it is no run of hybrid-pleg experiment")
	case len(r.Arms) == 0:
		return errors.New("it has no arm")
	}
	names := map[string]bool{}
	for _, arm := range r.Arms {
		switch {
		case arm.Name == "":
			return errors.New("an arm has no name")
		case names[arm.Name]:
			return fmt.Errorf("two arms have the name %q", arm.Name)
		}
		names[arm.Name] = true
		for _, c := range arm.Costs {
			if c.Window < 0 || c.CPU < 0 || c.RuntimeCPU < 0 || c.PeakRSS < 0 {
				return fmt.Errorf("arm %q has a negative cost in phase %q", arm.Name, c.Phase)
			}
		}
	}
	for _, phase := range r.Phases {
		switch {
		case phase.Name == "":
			return errors.New("a phase has no name")
		case phase.Arm != "" && !names[phase.Arm]:
			return fmt.Errorf("phase %q is of arm %q, which there is not", phase.Name, phase.Arm)
		case phase.Ended != 0 && phase.Ended < phase.Began:
			return fmt.Errorf("phase %q ends before it begins", phase.Name)
		}
	}
	return nil
}

func (t *Transition) check() error {
	switch t.Kind {
	case Start, Exit, Removed:
	default:
		return fmt.Errorf("its kind is %q: must be %s, %s or %s", t.Kind, Start, Exit, Removed)
	}
	switch {
	case t.Container == "":
		return errors.New("it has no container")
	case t.Phase == "":
		return errors.New("it has no phase")
	case min(t.Lifetime, t.Listed, t.Kernel, t.Visible, t.Asked) < 0:
		return errors.New("a time is negative")
	}
	for name, told := range t.Told {
		switch {
		case !slices.Contains(t.Arms, name):
			return fmt.Errorf("arm %q told it, and is not among the arms that had the chance", name)
		case told.At <= 0:
			return fmt.Errorf("arm %q told it at no time", name)
		case told.Times < 1:
			return fmt.Errorf("arm %q told it %d times: must be 1 or more, or the arm left out", name, told.Times)
		}
	}
	return nil
}

// fits says what of a transition has no place in the run.
func (t *Transition) fits(arms, phases map[string]bool) error {
	if !phases[t.Phase] {
		return fmt.Errorf("its phase %q is not in %s", t.Phase, RunFile)
	}
	for _, name := range t.Arms {
		if !arms[name] {
			return fmt.Errorf("its arm %q is not in %s", name, RunFile)
		}
	}
	return nil
}
