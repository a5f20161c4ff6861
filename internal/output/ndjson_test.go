package output

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
)

func TestNDJSONOfNastyNames(t *testing.T) {
	for name, s := range nasty {
		t.Run(name, func(t *testing.T) {
			var buf bytes.Buffer
			w := NewNDJSON(&buf)
			for range 2 {
				if err := w.Write(spoiled(s)); err != nil {
					t.Fatal(err)
				}
			}
			if err := w.Flush(); err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(buf.String(), "\n"); n != 2 || !strings.HasSuffix(buf.String(), "}\n") {
				t.Fatalf("2 events gave %d lines", n)
			}
			if !utf8.Valid(buf.Bytes()) {
				t.Errorf("no valid UTF-8: %q", buf.Bytes())
			}
			for _, line := range strings.SplitAfter(strings.TrimSuffix(buf.String(), "\n"), "\n") {
				// Some readers take these for the end of a line, too.
				if strings.ContainsAny(line, "\r\u2028\u2029\x00\x1b") {
					t.Errorf("a control character in %q", line)
				}
				var e event.Event
				if err := json.Unmarshal([]byte(line), &e); err != nil {
					t.Fatalf("no JSON: %v: %q", err, line)
				}
				if want := strings.ToValidUTF8(s, "\uFFFD"); utf8.ValidString(s) && e.Container.Name != want {
					t.Errorf("the name is %q, want %q", e.Container.Name, want)
				}
			}
		})
	}
}

// TestNDJSONKeepsAll writes an event with every field, and reads it back.
func TestNDJSONKeepsAll(t *testing.T) {
	want := sample(event.ContainerDied)
	want.ID = "c0c0c0c0c0c0c0c0/ContainerDied"
	want.From, want.To = event.StateRunning, event.StateExited
	want.Container.Image = "registry.example/app?a=1&b=<2>"
	want.Status = &event.Status{StartedAt: noon.UTC(), FinishedAt: noon.UTC().Add(time.Nanosecond), ExitCode: ptr(int32(-1)), Reason: "r", Message: "m", Pid: 7, CgroupPath: "/kubepods/x", CgroupID: 1<<63 + 1}
	want.Sandbox.Labels = map[string]string{"app": "web", "": ""}
	want.Sandbox.Annotations = map[string]string{"note": "two\nlines"}
	want.CreatedAt = noon.UTC().Add(-time.Hour)
	want.StatusMissing, want.Inferred = event.StatusLate, true
	want.Time, want.Detection.SignalAt, want.Detection.ObservedAt = noon.UTC(), noon.UTC(), noon.UTC()

	var buf bytes.Buffer
	w := NewNDJSON(&buf)
	if err := w.Write(want); err != nil {
		t.Fatal(err)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(buf.String(), "?a=1&b=<2>") {
		t.Errorf("escaped as for a web page: %s", buf.String())
	}
	var got event.Event
	dec := json.NewDecoder(&buf)
	dec.DisallowUnknownFields()
	if err := dec.Decode(&got); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(&got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
}

type full struct{}

var errFull = errors.New("no space left")

func (full) Write([]byte) (int, error) { return 0, errFull }

func TestWriteErrorsAreTold(t *testing.T) {
	for name, w := range map[string]Writer{"ndjson": NewNDJSON(full{}), "text": NewText(full{}, TextOptions{})} {
		if err := w.Write(sample(event.ContainerDied)); err != nil && !errors.Is(err, errFull) {
			t.Errorf("%s: %v", name, err)
		}
		if err := w.Flush(); !errors.Is(err, errFull) {
			t.Errorf("%s: the flush returned %v", name, err)
		}
	}
}

func TestParseFormat(t *testing.T) {
	for _, f := range []Format{Auto, NDJSON, Text, None} {
		if got, err := ParseFormat(string(f)); got != f || err != nil {
			t.Errorf("%q: %q, %v", f, got, err)
		}
	}
	for _, s := range []string{"", "json", "Text", "ndjson "} {
		if _, err := ParseFormat(s); !errors.Is(err, ErrFormat) {
			t.Errorf("%q: %v", s, err)
		}
	}
}
