package report

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/hybrid-pleg/hybrid-pleg/internal/experiment/result"
	"github.com/hybrid-pleg/hybrid-pleg/internal/experiment/result/resulttest"
)

func render(t *testing.T, e result.Experiment) string {
	t.Helper()
	html, err := Render(summary(t, e))
	if err != nil {
		t.Fatal(err)
	}
	return string(html)
}

// The page needs nothing from outside, and its drawings have the page's own colours.
func TestPageIsSelfContained(t *testing.T) {
	page := render(t, resulttest.Make(resulttest.Many(1, 15)))
	for _, bad := range []string{"<script", "@import", "<link rel=\"stylesheet", "url(", "Liberation Serif", "ZgotmplZ", "<no value>", "NaN", "%!", "&lt;svg"} {
		if strings.Contains(page, bad) {
			t.Errorf("%q is in the page", bad)
		}
	}
	if m := regexp.MustCompile(`(src|href|action)="[^#d][^"]*"`).FindString(page); m != "" {
		t.Errorf("the page refers to %s", m)
	}
	drawings := regexp.MustCompile(`(?s)<svg class="(?:wide|narrow)".*?</svg>`).FindAllString(page, -1)
	if len(drawings) < 20 {
		t.Errorf("%d drawings", len(drawings))
	}
	for _, d := range drawings {
		if m := regexp.MustCompile(`#[0-9A-Fa-f]{6}`).FindString(d); m != "" {
			t.Errorf("a drawing has the fixed colour %s", m)
		}
		if !strings.Contains(d, `role="img" aria-label="`) || strings.Contains(d, `aria-label=""`) {
			t.Errorf("a drawing has no words: %.200s", d)
		}
		dec := xml.NewDecoder(strings.NewReader(d))
		for {
			if _, err := dec.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("a drawing is no XML: %v\n%.500s", err, d)
			}
		}
	}
	if len(page) > 6<<20 {
		t.Errorf("the page has %d bytes", len(page))
	}
}

// Names, notes and the plan come from outside, and stay text.
func TestPageEscapes(t *testing.T) {
	spec := resulttest.Periods(1)
	spec.Arms = spec.Arms[:3]
	const nasty = `<b>"&'</b>`
	spec.Arms[1].Name = nasty
	spec.Workloads[0].Name = nasty
	e := resulttest.Make(spec)
	e.Run.Name, e.Plan, e.Run.Notes = nasty, nasty, []string{nasty}
	e.Run.Arms[0].Failed, e.Run.Arms[0].Command = nasty, []string{nasty}
	if page := render(t, e); strings.Contains(page, "<b>") {
		t.Error("markup got into the page")
	}
}

func TestPageOfAlmostNothing(t *testing.T) {
	for name, e := range sparse() {
		t.Run(name, func(t *testing.T) {
			page := render(t, e)
			for _, bad := range []string{"NaN", "<no value>", "Inf"} {
				if strings.Contains(page, bad) {
					t.Errorf("%q is in the page", bad)
				}
			}
			if !strings.Contains(page, "Method and limits") {
				t.Error("the page is cut off")
			}
		})
	}
}

func TestWrite(t *testing.T) {
	dir := t.TempDir()
	save(t, dir, resulttest.Make(resulttest.Many(1, 4)))
	if _, err := Write(dir, Options{Resamples: 100}); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(filepath.Join(dir, result.SummaryFile))
	if err != nil {
		t.Fatal(err)
	}
	var s Summary
	if err := json.Unmarshal(content, &s); err != nil || s.Format != SummaryFormat || len(s.Workloads) != 2 {
		t.Errorf("summary: format %d, %d workloads, %v", s.Format, len(s.Workloads), err)
	}
	if html, err := os.ReadFile(filepath.Join(dir, result.ReportFile)); err != nil || !strings.HasSuffix(string(html), "</html>\n") {
		t.Errorf("the page: %d bytes, %v", len(html), err)
	}
	if _, err := Write(t.TempDir(), Options{}); !errors.Is(err, result.ErrNoResult) {
		t.Errorf("without an experiment: %v", err)
	}
}

func save(t *testing.T, dir string, e result.Experiment) {
	t.Helper()
	if err := resulttest.Write(dir, e); err != nil {
		t.Fatal(err)
	}
}
