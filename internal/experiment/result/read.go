package result

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
)

// ErrNoResult says that a directory holds no experiment.
var ErrNoResult = errors.New("no experiment there")

// Experiment is all that a run left behind.
type Experiment struct {
	Run         Run
	Plan        string // as it was run, YAML; empty if the file is gone
	Transitions []Transition
}

// Read reads and checks the experiment in dir. What is wrong is told with the file
// and the line.
func Read(dir string) (Experiment, error) {
	run, err := ReadRun(dir)
	if err != nil {
		return Experiment{}, err
	}
	e := Experiment{Run: run}
	plan, err := os.ReadFile(filepath.Join(dir, PlanFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Experiment{}, fmt.Errorf("read the plan: %w", err)
	}
	e.Plan = string(plan)
	arms, phases := map[string]bool{}, map[string]bool{}
	for _, arm := range run.Arms {
		arms[arm.Name] = true
	}
	for _, phase := range run.Phases {
		phases[phase.Name] = true
	}
	line := 0
	for t, err := range ReadTransitions(dir) {
		if err != nil {
			return Experiment{}, err
		}
		line++
		if err := t.fits(arms, phases); err != nil {
			return Experiment{}, fmt.Errorf("%s:%d: %w", filepath.Join(dir, TransitionsFile), line, err)
		}
		e.Transitions = append(e.Transitions, t)
	}
	return e, nil
}

// ReadRun reads run.json in dir. Without that file, the error is [ErrNoResult].
func ReadRun(dir string) (Run, error) {
	name := filepath.Join(dir, RunFile)
	content, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return Run{}, fmt.Errorf("%s: %w: it has no %s, which hybrid-pleg experiment run writes", dir, ErrNoResult, RunFile)
	}
	if err != nil {
		return Run{}, fmt.Errorf("read the run: %w", err)
	}
	// A newer version may have fields that this one does not know: say what matters.
	var head struct {
		Format  int    `json:"format"`
		Version string `json:"version"`
	}
	if json.Unmarshal(content, &head) == nil && head.Format > Format {
		r := Run{Format: head.Format, Version: head.Version}
		return Run{}, fmt.Errorf("%s: %w", name, r.check())
	}
	var run Run
	dec := json.NewDecoder(bytes.NewReader(content))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&run); err != nil {
		return Run{}, fmt.Errorf("%s:%d: %w", name, lineOf(content, err, dec.InputOffset()), plain(err))
	}
	if err := run.check(); err != nil {
		return Run{}, fmt.Errorf("%s: %w", name, err)
	}
	return run, nil
}

// ReadTransitions yields the transitions in dir one by one, each line checked by
// itself. After an error it yields no more.
func ReadTransitions(dir string) iter.Seq2[Transition, error] {
	return func(yield func(Transition, error) bool) {
		name := filepath.Join(dir, TransitionsFile)
		f, err := os.Open(name)
		if err != nil {
			yield(Transition{}, fmt.Errorf("read transitions: %w", err))
			return
		}
		defer f.Close()
		r := bufio.NewReader(f)
		for line := 1; ; line++ {
			t, err := readTransition(r)
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				yield(Transition{}, fmt.Errorf("%s:%d: %w", name, line, err))
				return
			}
			if !yield(t, nil) {
				return
			}
		}
	}
}

func readTransition(r *bufio.Reader) (Transition, error) {
	line, err := r.ReadBytes('\n')
	switch {
	case errors.Is(err, io.EOF) && len(line) > 0:
		return Transition{}, errors.New("the line is cut off: whoever wrote it was killed; remove the line to go on without it")
	case err != nil:
		return Transition{}, err
	}
	var t Transition
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&t); err != nil {
		return Transition{}, plain(err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return Transition{}, errors.New("more than one value in the line")
	}
	return t, t.check()
}

// lineOf returns the line of content, counted from 1, at which decoding failed.
func lineOf(content []byte, err error, offset int64) int {
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		offset = syntax.Offset
	}
	if mismatch, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		offset = mismatch.Offset
	}
	return 1 + bytes.Count(content[:min(int(offset), len(content))], []byte("\n"))
}

// plain words the errors of encoding/json that a reader would stumble over.
func plain(err error) error {
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("the JSON is cut off")
	case errors.Is(err, io.EOF):
		return errors.New("there is nothing in it")
	default:
		return err
	}
}
