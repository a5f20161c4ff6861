package result

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
)

// WriteFile writes a file of an experiment as a whole: a reader, and a crash, see the
// old content or the new.
func WriteFile(dir, name string, content []byte) (err error) {
	f, err := os.CreateTemp(dir, "."+name+".*")
	if err != nil {
		return fmt.Errorf("write %s: %w", filepath.Join(dir, name), err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
			err = fmt.Errorf("write %s: %w", filepath.Join(dir, name), err)
		}
	}()
	_, err = f.Write(content)
	err = errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close())
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), filepath.Join(dir, name))
}

// WriteJSON writes v, indented, as a file of an experiment.
func WriteJSON(dir, name string, v any) error {
	content, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("write %s: %w", filepath.Join(dir, name), err)
	}
	return WriteFile(dir, name, append(content, '\n'))
}

// WriteRun writes run.json, with the format of this version.
func WriteRun(dir string, run Run) error {
	run.Format = Format
	if err := run.check(); err != nil {
		return fmt.Errorf("write %s: %w", filepath.Join(dir, RunFile), err)
	}
	return WriteJSON(dir, RunFile, run)
}

// TransitionWriter writes transitions as NDJSON and as CSV. It is for one goroutine.
type TransitionWriter struct {
	dir    string
	files  [2]*os.File
	ndjson *bufio.Writer
	encode *json.Encoder
	csv    *csv.Writer
}

// NewTransitionWriter creates both files in dir, and empties them if they exist.
func NewTransitionWriter(dir string) (*TransitionWriter, error) {
	w := &TransitionWriter{dir: dir}
	for i, name := range []string{TransitionsFile, TransitionsCSV} {
		f, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			if i > 0 {
				w.files[0].Close()
			}
			return nil, fmt.Errorf("write transitions: %w", err)
		}
		w.files[i] = f
	}
	w.ndjson = bufio.NewWriter(w.files[0])
	w.encode = json.NewEncoder(w.ndjson)
	w.encode.SetEscapeHTML(false)
	w.csv = csv.NewWriter(w.files[1])
	return w, w.wrap(w.csv.Write(csvHeader()))
}

// Write appends a transition to both files: a line of JSON, and a row of CSV for each
// arm that had the chance to tell it.
func (w *TransitionWriter) Write(t Transition) error {
	if err := t.check(); err != nil {
		return w.wrap(err)
	}
	if err := w.encode.Encode(t); err != nil {
		return w.wrap(err)
	}
	return w.wrap(writeRows(w.csv, t))
}

// Close writes what is buffered and closes the files.
func (w *TransitionWriter) Close() error {
	w.csv.Flush()
	return w.wrap(errors.Join(w.ndjson.Flush(), w.csv.Error(),
		w.files[0].Sync(), w.files[1].Sync(), w.files[0].Close(), w.files[1].Close()))
}

func (w *TransitionWriter) wrap(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("write transitions in %s: %w", w.dir, err)
}

// WriteCSV writes transitions as CSV: a row for each transition and arm, with
// the columns that the first row names. A moment that was not observed, or that an arm did
// not tell, is empty.
func WriteCSV(to io.Writer, transitions []Transition) error {
	w := csv.NewWriter(to)
	if err := w.Write(csvHeader()); err != nil {
		return err
	}
	for _, t := range transitions {
		if err := writeRows(w, t); err != nil {
			return err
		}
	}
	w.Flush()
	return w.Error()
}

func csvHeader() []string {
	return []string{
		"phase", "repeat", "kind", "container", "pod", "lifetime_ns", "listed_ns", "kernel_ns", "visible_ns", "asked_ns",
		"arm", "told_ns", "observed_ns", "found_by", "trigger", "inferred", "times",
	}
}

func writeRows(w *csv.Writer, t Transition) error {
	for _, arm := range t.Arms {
		row := []string{
			t.Phase, strconv.Itoa(t.Repeat), t.Kind, t.Container, t.Pod, moment(t.Lifetime), moment(t.Listed),
			moment(t.Kernel), moment(t.Visible), moment(t.Asked), arm,
		}
		if told, ok := t.Told[arm]; ok {
			row = append(row, moment(told.At), moment(told.Observed), told.FoundBy, told.Trigger,
				strconv.FormatBool(told.Inferred), strconv.Itoa(told.Times))
		} else {
			row = append(row, "", "", "", "", "", "0")
		}
		if err := w.Write(row); err != nil {
			return err
		}
	}
	return nil
}

func moment(ns int64) string {
	if ns == 0 {
		return ""
	}
	return strconv.FormatInt(ns, 10)
}
