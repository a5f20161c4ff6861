package plan

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// load reads the files that the plan names, relative to dir.
func (p *Plan) load(dir string) (wrong []error) {
	for i := range p.Workloads {
		w := &p.Workloads[i]
		if w.Lifetime.Kind != FromFile {
			continue
		}
		path := w.Lifetime.File
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		if err := w.Lifetime.load(path); err != nil {
			wrong = append(wrong, fmt.Errorf("%s: lifetime: %w", w.of("lifetime"), err))
		}
	}
	return wrong
}

// load reads observed lifetimes: one a line, as 300ms or as a number of seconds;
// what follows a # is ignored.
func (l *Lifetime) load(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	l.Observed = nil
	lines := bufio.NewScanner(bytes.NewReader(data))
	for n := 1; lines.Scan(); n++ {
		text, _, _ := strings.Cut(lines.Text(), "#")
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		d, err := time.ParseDuration(text)
		if err != nil {
			seconds, ferr := strconv.ParseFloat(text, 64)
			if ferr != nil || !(seconds < 1e9) {
				return fmt.Errorf("%s:%d: %q is neither a duration nor a number of seconds", path, n, text)
			}
			d = time.Duration(seconds * float64(time.Second))
		}
		if d < 0 {
			return fmt.Errorf("%s:%d: the lifetime %s is negative", path, n, text)
		}
		l.Observed = append(l.Observed, d)
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if len(l.Observed) == 0 {
		return fmt.Errorf("%s holds no lifetime", path)
	}
	return nil
}

// finish fills in what depends on other settings, and checks what single settings
// can't show.
func (p *Plan) finish() (wrong []error) {
	complain := func(at, format string, args ...any) {
		wrong = append(wrong, fmt.Errorf("%s: "+format, append([]any{at}, args...)...))
	}
	if len(p.Arms) == 0 {
		complain(p.of("arms"), "the plan has no arms: nothing would be measured")
	}
	if len(p.Workloads) == 0 {
		complain(p.of("workloads"), "the plan has no workloads: nothing would happen")
	}
	taken := map[string]string{}
	for i := range p.Arms {
		a := &p.Arms[i]
		if a.Name == "" {
			a.Name = a.defaultName()
		}
		if other, twice := taken[a.Name]; twice {
			complain(a.of("name"), "an arm is called %q already (%s)", a.Name, other)
		}
		taken[a.Name] = a.at
		if err := a.check(); err != nil {
			complain(a.of(err.setting), "arm %s: %w", a.Name, err)
		}
		a.complete()
	}
	taken = map[string]string{}
	for i := range p.Workloads {
		w := &p.Workloads[i]
		if w.Name == "" {
			w.Name = "workload-" + strconv.Itoa(i+1)
		}
		if other, twice := taken[w.Name]; twice {
			complain(w.of("name"), "a workload is called %q already (%s)", w.Name, other)
		}
		taken[w.Name] = w.at
		if err := w.check(); err != nil {
			complain(w.of(err.setting), "workload %s: %w", w.Name, err)
		}
	}
	return wrong
}

func (a *Arm) defaultName() string {
	name := a.Kind
	if a.Kind == Hybrid {
		name = strings.Join(append([]string{"hybrid"}, a.Triggers...), "-")
		if len(a.Triggers) == 0 {
			name = "relist"
		}
	}
	if a.Period > 0 {
		name += "-" + a.Period.String()
	}
	return name
}

// settingError is about one setting.
type settingError struct {
	setting string
	error
}

func (e *settingError) Unwrap() error { return e.error }

func about(setting, format string, args ...any) *settingError {
	return &settingError{setting, fmt.Errorf(format, args...)}
}

func (a *Arm) check() *settingError {
	switch {
	case a.Kind != Hybrid && len(a.Triggers) > 0:
		return about("triggers", "an arm of kind %s has no triggers to choose", a.Kind)
	case a.Kind == CRIEvents && a.Period != 0:
		return about("period", "the event stream has no period")
	case a.PeriodDegraded != 0 && (a.Kind != Hybrid || len(a.Triggers) == 0):
		return about("period-degraded", "only an arm with triggers has a degraded period")
	}
	return nil
}

func (w *Workload) check() *settingError {
	switch {
	case w.Arrivals.None() && w.Duration == 0:
		return about("duration", "nothing arrives, and it does not say how long that is to go on: give a duration")
	case w.Arrivals.None() && w.Count > 0:
		return about("count", "%d containers are to be started, but nothing arrives: give arrivals", w.Count)
	case w.Arrivals.None() && w.Background == 0:
		return about("background", "there would be no container at all: give arrivals or a background")
	case !w.Arrivals.None() && w.Duration == 0 && w.Count == 0:
		return about("arrivals", "it does not say when arrivals end: give a duration or a count")
	case !w.Arrivals.None() && w.Arrivals.PerSecond()*w.Duration.Seconds() > 1e7 && w.Count == 0:
		return about("arrivals", "%.0f containers are too many", w.Arrivals.PerSecond()*w.Duration.Seconds())
	}
	return nil
}
