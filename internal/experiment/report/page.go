package report

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"strings"

	"github.com/hybrid-pleg/hybrid-pleg/internal/experiment/result"
)

//go:embed page.html.tmpl
var pageTemplate string

//go:embed page.css
var pageStyle string

// Style returns the style sheet of the page, for pages that go with it.
func Style() string { return pageStyle }

// chart is a figure of the page.
type chart struct {
	Title, Caption string
	SVG            string
	// Keys says which letter, colour and dash pattern is which arm.
	Keys []armKey
	// Moments are the numbered lines of a timeline.
	Moments []Moment
}

// Drawing is the SVG, made by this package.
func (c chart) Drawing() template.HTML {
	return template.HTML(c.SVG) //nolint:gosec // Its texts were escaped when it was drawn.
}

type armKey struct {
	Key, Name string
	Color     int
	Dashes    string
}

func keysOf(s *Summary, curves []armCurve) []armKey {
	keys := make([]armKey, len(curves))
	for i, c := range curves {
		keys[i] = keyOf(s, c.arm)
	}
	return keys
}

func keyOf(s *Summary, arm int) armKey {
	var dashes []string
	for _, d := range armDashes(arm) {
		dashes = append(dashes, fmt.Sprint(d.Points()))
	}
	return armKey{Key: s.Arms[arm].Key, Name: s.Arms[arm].Name, Color: arm % armColors, Dashes: strings.Join(dashes, ",")}
}

// page is what the template shows.
type page struct {
	*Summary
	Style    template.CSS
	Title    string
	Sections []section
}

// section is a workload with its charts.
type section struct {
	*Workload
	Latency, Missed, Costs, Trade, Timelines []chart
}

// Render makes the page of a summary.
func Render(s *Summary) ([]byte, error) {
	p := page{Summary: s, Style: template.CSS(pageStyle), Title: s.Run.Name}
	if p.Title == "" {
		p.Title = "Experiment"
	}
	for i := range s.Workloads {
		section, err := sectionOf(s, &s.Workloads[i])
		if err != nil {
			return nil, err
		}
		p.Sections = append(p.Sections, section)
	}
	t, err := template.New("page").Funcs(functions(s)).Parse(pageTemplate)
	if err != nil {
		return nil, fmt.Errorf("render the report: %w", err)
	}
	var b bytes.Buffer
	if err := t.Execute(&b, p); err != nil {
		return nil, fmt.Errorf("render the report: %w", err)
	}
	return b.Bytes(), nil
}

func sectionOf(s *Summary, w *Workload) (section, error) {
	sec := section{Workload: w}
	for _, from := range []string{FromKernel, FromVisible, FromAsked} {
		for _, kind := range []string{result.Exit, result.Start} {
			charts, err := latencyCharts(s, w, kind, from)
			if err != nil {
				return sec, err
			}
			sec.Latency = append(sec.Latency, charts...)
		}
	}
	for _, kind := range []string{result.Exit, result.Start} {
		charts, err := missedCharts(s, w, kind)
		if err != nil {
			return sec, err
		}
		sec.Missed = append(sec.Missed, charts...)
	}
	var err error
	if sec.Costs, err = costCharts(s, w); err != nil {
		return sec, err
	}
	if sec.Trade, err = tradeCharts(s, w); err != nil {
		return sec, err
	}
	if w.Timeline != nil {
		c, err := timelineChart(s, w.Timeline)
		if err != nil {
			return sec, err
		}
		sec.Timelines = []chart{c}
	}
	return sec, nil
}

// Write makes the summary of the experiment in dir, and writes summary.json and report.html
// there.
func Write(dir string, o Options) (*Summary, error) {
	e, err := result.Read(dir)
	if err != nil {
		return nil, err
	}
	s, err := NewSummary(e, o)
	if err != nil {
		return nil, err
	}
	html, err := Render(s)
	if err != nil {
		return nil, err
	}
	if err := result.WriteJSON(dir, result.SummaryFile, s); err != nil {
		return nil, err
	}
	return s, result.WriteFile(dir, result.ReportFile, html)
}
