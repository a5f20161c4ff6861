package result

import (
	"encoding/csv"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

func sampleRun() Run {
	return Run{
		Format: Format, Name: "periods", Seed: 7, Version: "v1", Began: time.Unix(1, 0).UTC(), Ended: time.Unix(9, 0).UTC(),
		Host: Host{Kernel: "6.12", CPUs: 2}, Runtime: Runtime{Name: "containerd", Version: "v2"},
		Truth:  Truth{Kernel: FromEBPF, Visible: FromEvents},
		Arms:   []Arm{{Name: "a", Kind: Hybrid, Costs: []Cost{{Phase: "p", CPU: 1, Window: 2}}}, {Name: "b", Kind: CRIPoll, Period: time.Second}},
		Phases: []Phase{{Name: "p", Repeat: 1, Began: 5, Ended: 9}},
	}
}

func sampleTransitions() []Transition {
	return []Transition{
		{
			Phase: "p", Repeat: 1, Kind: Start, Container: "c1", Pod: "u1", Lifetime: 50, Kernel: 6, Visible: 7,
			Arms: []string{"a", "b"},
			Told: map[string]Told{"a": {At: 8, Observed: 7, FoundBy: "early", Trigger: "ebpf", Times: 1}},
		},
		{Phase: "p", Repeat: 1, Kind: Removed, Container: "c1", Pod: "u1", Lifetime: 50, Asked: 60, Arms: []string{"b"}, Told: map[string]Told{"b": {At: 99, Times: 2}}},
	}
}

func write(t *testing.T, dir string, run Run, transitions []Transition) {
	t.Helper()
	if err := WriteRun(dir, run); err != nil {
		t.Fatal(err)
	}
	w, err := NewTransitionWriter(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, tr := range transitions {
		if err := w.Write(tr); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestWriteAndRead(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, sampleRun(), sampleTransitions())
	if err := WriteFile(dir, PlanFile, []byte("name: periods\n")); err != nil {
		t.Fatal(err)
	}
	e, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	want := Experiment{Run: sampleRun(), Plan: "name: periods\n", Transitions: sampleTransitions()}
	if !reflect.DeepEqual(e, want) {
		t.Errorf("read\n%+v\nwant\n%+v", e, want)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 4 {
		t.Errorf("%d files, want run, plan, NDJSON and CSV; %v", len(entries), err)
	}
}

func TestCSV(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, sampleRun(), sampleTransitions())
	streamed, err := os.ReadFile(filepath.Join(dir, TransitionsCSV))
	if err != nil {
		t.Fatal(err)
	}
	var whole strings.Builder
	if err := WriteCSV(&whole, sampleTransitions()); err != nil || whole.String() != string(streamed) {
		t.Errorf("streamed and written as a whole differ: %v", err)
	}
	rows, err := csv.NewReader(strings.NewReader(string(streamed))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	got := make([]string, len(rows))
	for i, row := range rows[1:] {
		got[i] = strings.Join(row, ",")
	}
	want := []string{
		"p,1,start,c1,u1,50,,6,7,,a,8,7,early,ebpf,false,1",
		"p,1,start,c1,u1,50,,6,7,,b,,,,,,0",
		"p,1,removed,c1,u1,50,,,,60,b,99,,,,false,2",
		"",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("rows\n%q\nwant\n%q", got, want)
	}
}

func TestReadRefuses(t *testing.T) {
	good := `{"phase":"p","repeat":1,"kind":"exit","container":"c","pod":"u","lifetimeNs":1,"told":{},"arms":["a"]}` + "\n"
	for _, c := range []struct{ name, run, transitions, want string }{
		{"no run", "-", good, "no experiment there"},
		{"newer", `{"format": 99, "version": "v9", "surprise": 1}`, good, "run.json: it has format 99, and this version reads up to 1"},
		{"no format", `{"name": "x"}`, good, "run.json: it says no format"},
		{"bad JSON", "{\n\n\"format\": 1,,}", good, "run.json:3: invalid character"},
		{"bad type", "{\n\"format\": \"x\"}", good, "run.json:2: json: cannot unmarshal string"},
		{"unknown key", "{\"format\": 1,\n\"colour\": 1}", good, `run.json:2: json: unknown field "colour"`},
		{"cut", `{"format": 1`, good, "run.json:1: the JSON is cut off"},
		{"no arm", `{"format": 1}`, good, "run.json: it has no arm"},
		{"twins", `{"format": 1, "arms":[{"name":"a"},{"name":"a"}]}`, good, `two arms have the name "a"`},
		{"cut line", "", good + good[:20], "transitions.ndjson:2: the line is cut off"},
		{"kind", "", good + strings.Replace(good, "exit", "death", 1), `transitions.ndjson:2: its kind is "death"`},
		{"unknown arm", "", strings.Replace(good, `["a"]`, `["z"]`, 1), `transitions.ndjson:1: its arm "z" is not in run.json`},
		{"unknown phase", "", strings.Replace(good, `"p"`, `"q"`, 1), `transitions.ndjson:1: its phase "q" is not in run.json`},
		{"no chance", "", strings.Replace(good, `{}`, `{"b":{"atNs":1,"times":1}}`, 1), `arm "b" told it, and is not among`},
		{"no times", "", strings.Replace(good, `{}`, `{"a":{"atNs":1,"times":0}}`, 1), `arm "a" told it 0 times`},
		{"negative", "", strings.Replace(good, `Ns":1`, `Ns":-1`, 1), "a time is negative"},
		{"two values", "", strings.TrimSpace(good) + " {}\n", "more than one value"},
		{"no transitions", "", "-", "transitions.ndjson: no such file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := WriteRun(dir, sampleRun()); err != nil {
				t.Fatal(err)
			}
			put(t, dir, RunFile, c.run)
			put(t, dir, TransitionsFile, c.transitions)
			_, err := Read(dir)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Read: %v, want %q in it", err, c.want)
			}
			if c.name == "no run" && !errors.Is(err, ErrNoResult) {
				t.Errorf("%v is not ErrNoResult", err)
			}
		})
	}
}

// put writes a file as it is; "-" removes it and "" leaves it alone.
func put(t *testing.T, dir, name, content string) {
	t.Helper()
	path := filepath.Join(dir, name)
	var err error
	switch content {
	case "-":
		if err = os.Remove(path); errors.Is(err, os.ErrNotExist) {
			err = nil
		}
	case "":
	default:
		err = os.WriteFile(path, []byte(content), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestWriteRefuses(t *testing.T) {
	dir := t.TempDir()
	bad := sampleRun()
	bad.Arms[1].Name = "a"
	if err := WriteRun(dir, bad); err == nil {
		t.Error("a run with two arms of one name was written")
	}
	w, err := NewTransitionWriter(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	tr := sampleTransitions()[0]
	tr.Kind = "sleep"
	if err := w.Write(tr); err == nil {
		t.Error("a transition of an unknown kind was written")
	}
	if _, err := NewTransitionWriter(filepath.Join(dir, "none")); err == nil {
		t.Error("a writer for a directory that is not there")
	}
	if err := WriteFile(filepath.Join(dir, "none"), PlanFile, nil); err == nil {
		t.Error("a file in a directory that is not there")
	}
}
