package compare

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/internal/experiment/report"
	"github.com/hybrid-pleg/hybrid-pleg/internal/experiment/stats"
)

// WriteJSON writes the comparison as JSON.
func (c *Comparison) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(c)
}

// WriteText writes the comparison as text: what is beyond noise first, then all.
func (c *Comparison) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "A  %s\nB  %s\n", c.A.text(), c.B.text())
	for _, warning := range c.Warnings {
		fmt.Fprintf(&b, "warning: %s\n", warning)
	}
	fmt.Fprintf(&b, "\n%s\n", c.Answer())
	for _, r := range c.Beyond() {
		fmt.Fprintf(&b, "  %s, %s: %s %s, %s → %s (%s)\n", r.Workload, r.Arm, r.Metric, r.Verdict, r.Text(r.A), r.Text(r.B), r.Change())
	}
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	last := ""
	for _, r := range c.Rows {
		if r.Workload != last {
			fmt.Fprintf(t, "\n%s\narm\tmetric\tA\tB\tdifference\tinterval\t\n", strings.ToUpper(r.Workload))
			last = r.Workload
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.Arm, r.Metric, r.Text(r.A), r.Text(r.B), r.Change(), r.IntervalText(), r.VerdictText())
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(&b, "\n%s\n", c.Method())
	// Spaces that don't break are for pages.
	_, err := io.WriteString(w, strings.ReplaceAll(b.String(), "\u00a0", " "))
	return err
}

func (s Side) text() string {
	return fmt.Sprintf("%s, %s, %s, hybrid-pleg %s", s.Name, s.Began.UTC().Format(time.DateTime), s.Runtime, s.Version)
}

// Beyond returns the rows whose difference is beyond noise.
func (c *Comparison) Beyond() []Row {
	var rows []Row
	for _, r := range c.Rows {
		if r.Verdict == Higher || r.Verdict == Lower {
			rows = append(rows, r)
		}
	}
	return rows
}

// Answer says in a sentence how many differences are beyond noise.
func (c *Comparison) Answer() string {
	unknown := 0
	for _, r := range c.Rows {
		if r.Verdict == Unknown {
			unknown++
		}
	}
	s := fmt.Sprintf("%d of %d differences are beyond noise", len(c.Beyond()), len(c.Rows))
	if unknown > 0 {
		s += fmt.Sprintf("; %d could not be judged, for their data are too few", unknown)
	}
	return s + "."
}

// Method says how it was judged.
func (c *Comparison) Method() string {
	return fmt.Sprintf("Beyond noise: the interval of the difference excludes 0, and the difference is at least %s of A. "+
		"%d differences were looked at, so each interval is at %.5g %% (Bonferroni): the chance that any is called beyond noise without cause is at most 5 %%. "+
		"Latencies: quantiles of what was told, block bootstrap; shares: Newcombe; costs: Student's, on the logarithms of the repeats, of which it takes 3 in each run.",
		report.Share(c.MinChange), c.Comparisons, 100*c.Level)
}

// Text writes a figure of the row.
func (r Row) Text(v float64) string {
	switch r.Unit {
	case Seconds:
		return report.Duration(v)
	case ShareOf:
		return report.Share(v)
	case Bytes:
		return report.Mebibytes(int64(v))
	default:
		return report.Digits(v)
	}
}

// Change writes the difference: as a share of A where that can be.
func (r Row) Change() string {
	if r.Relative == nil {
		if r.Difference == 0 {
			return "±0"
		}
		return signed(r.Difference, r.Text)
	}
	return signed(*r.Relative, func(v float64) string { return report.Digits(100*v) + "\u00a0%" })
}

// IntervalText writes the interval of the difference.
func (r Row) IntervalText() string {
	if r.Interval == nil {
		return "none"
	}
	if r.Unit == Seconds {
		return report.Span(r.Interval)
	}
	ends := *r.Interval
	if r.Unit == ShareOf {
		ends = stats.Interval{Low: 100 * ends.Low, High: 100 * ends.High}
	}
	unit := map[Unit]string{ShareOf: "\u00a0points", Bytes: "\u00a0MiB"}[r.Unit]
	if r.Unit == Bytes {
		ends = stats.Interval{Low: ends.Low / (1 << 20), High: ends.High / (1 << 20)}
	}
	return report.Digits(ends.Low) + " to " + report.Digits(ends.High) + unit
}

// VerdictText says what the difference amounts to.
func (r Row) VerdictText() string {
	switch r.Verdict {
	case Higher, Lower:
		return strings.ToUpper(string(r.Verdict))
	case Noise:
		return "within noise"
	case Small:
		return "too small to matter"
	default:
		return "can't be judged"
	}
}

func signed(v float64, write func(float64) string) string {
	if v > 0 {
		return "+" + write(v)
	}
	if v < 0 {
		return "−" + write(-v)
	}
	return "±0"
}

//go:embed compare.html.tmpl
var page string

// WriteHTML writes the comparison as a page that needs nothing from outside.
func (c *Comparison) WriteHTML(w io.Writer) error {
	t, err := template.New("compare").Parse(page)
	if err != nil {
		return fmt.Errorf("write the comparison: %w", err)
	}
	type block struct {
		Workload string
		Rows     []Row
	}
	var blocks []block
	for _, r := range c.Rows {
		if len(blocks) == 0 || blocks[len(blocks)-1].Workload != r.Workload {
			blocks = append(blocks, block{Workload: r.Workload})
		}
		last := &blocks[len(blocks)-1]
		last.Rows = append(last.Rows, r)
	}
	return t.Execute(w, map[string]any{
		"Style": template.CSS(report.Style()), "C": c, "A": c.A.text(), "B": c.B.text(), "Blocks": blocks,
	})
}
