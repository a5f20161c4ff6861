package plan

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// Flags make a plan out of a command line: a plan by name or file, changed by further
// flags, or one made of flags alone.
type Flags struct {
	// Plan is a file, or the name of a plan that comes with the program.
	Plan string
	// Arms are settings as "name=a kind=hybrid period=1s". They replace the plan's.
	Arms []string

	set *pflag.FlagSet
}

// Register adds the flags. Those of workloads hold for each workload of the plan.
func (f *Flags) Register(set *pflag.FlagSet) {
	f.set = set
	set.StringVar(&f.Plan, "plan", "", "a plan: a YAML file, or one of "+strings.Join(Ready(), ", "))
	set.StringArrayVar(&f.Arms, "arm", nil, `an arm, such as "kind=hybrid triggers=cgroup,ebpf period=10s"; may be given several times, and replaces the plan's; its settings are `+strings.Join(names(armKeys()), ", "))
	for _, k := range planKeys() {
		set.String(k.name, "", k.help)
	}
	set.Lookup("sequential").NoOptDefVal = "true"
	for _, k := range workloadKeys() {
		if k.name != "name" {
			set.String(k.name, "", "of the workloads: "+k.help)
		}
	}
}

// Make makes the plan. The error wraps [ErrPlan] and lists everything that is wrong.
func (f *Flags) Make() (*Plan, error) {
	p, dir, wrong := f.base()
	setAll(f.set, planKeys(), p, &p.source, &wrong)
	if len(f.Arms) > 0 {
		p.Arms = nil
	}
	for _, s := range f.Arms {
		a, errs := parseArm(s)
		p.Arms = append(p.Arms, a)
		wrong = append(wrong, errs...)
	}
	if f.Plan == "" {
		w := newWorkload()
		w.at = "the command line"
		p.Workloads = append(p.Workloads, w)
	}
	for i := range p.Workloads {
		// What is wrong with a flag is wrong for each workload, and told once.
		var errs []error
		setAll(f.set, workloadKeys(), &p.Workloads[i], &p.Workloads[i].source, &errs)
		if i == 0 {
			wrong = append(wrong, errs...)
		}
	}
	return p.done(dir, wrong)
}

// base is the plan that the flags change, and the directory to which its files are
// relative.
func (f *Flags) base() (p *Plan, dir string, wrong []error) {
	switch {
	case f.Plan == "":
		empty := newPlan()
		empty.at = "the command line"
		return &empty, ".", nil
	case slices.Contains(Ready(), f.Plan):
		data, err := readyPlan(f.Plan)
		if err != nil {
			empty := newPlan()
			return &empty, ".", []error{err}
		}
		p, wrong = parse("plan "+f.Plan, data)
		return p, ".", wrong
	}
	data, err := os.ReadFile(f.Plan)
	if err != nil {
		if errors.Is(err, os.ErrNotExist) && !strings.ContainsAny(f.Plan, "/.") {
			err = fmt.Errorf("there is no plan %q: give a file, or one of %s", f.Plan, strings.Join(Ready(), ", "))
		}
		empty := newPlan()
		return &empty, ".", []error{err}
	}
	p, wrong = parse(f.Plan, data)
	return p, filepath.Dir(f.Plan), wrong
}

// setAll takes over the flags that were given.
func setAll[T any](set *pflag.FlagSet, keys []key[T], to *T, src *source, wrong *[]error) {
	for _, k := range keys {
		flag := set.Lookup(k.name)
		if k.name == "name" {
			if _, ok := any(to).(*Plan); !ok {
				continue
			}
		}
		if flag == nil || !flag.Changed {
			continue
		}
		src.note(k.name, "--"+k.name)
		if err := k.set(to, flag.Value.String()); err != nil {
			*wrong = append(*wrong, fmt.Errorf("--%s: %w", k.name, err))
		}
	}
}

// parseArm reads settings separated by blanks.
func parseArm(s string) (a Arm, wrong []error) {
	a = newArm()
	a.at = fmt.Sprintf("--arm %q", s)
	keys := armKeys()
	for setting := range strings.FieldsSeq(s) {
		name, value, ok := strings.Cut(setting, "=")
		i := slices.IndexFunc(keys, func(k key[Arm]) bool { return k.name == name })
		switch {
		case !ok || i < 0:
			wrong = append(wrong, fmt.Errorf("%s: %q is no setting such as period=1s; the settings are %s", a.at, setting, strings.Join(names(keys), ", ")))
		default:
			if err := keys[i].set(&a, value); err != nil {
				wrong = append(wrong, fmt.Errorf("%s: %s: %w", a.at, name, err))
			}
		}
	}
	return a, wrong
}
