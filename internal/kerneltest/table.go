package kerneltest

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
)

// Table is what the machines found, in Markdown: one row a kernel and layout, one column a
// source; then one row for each kind of host that lacks something.
func Table(results []Result) string {
	var b strings.Builder
	b.WriteString("| kernel | cgroups | probe | `ebpf` alone | `cgroup` alone | exec storm |\n|---|---|---|---|---|---|\n")
	for _, r := range results {
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", r.kernel(), r.Run.Layout, r.tests(),
			r.cell("ebpf", suiteDaemon(), suiteAlone()), r.cell("cgroup", suiteDaemon(), suiteAlone()), r.cell("storm", suiteDaemon()))
	}
	var hosts []string
	for _, r := range results {
		for _, f := range r.Findings() {
			if host, ok := strings.CutPrefix(f.Subject, "host "); ok {
				hosts = append(hosts, fmt.Sprintf("| %s | %s | %s |\n", host, r.kernel(), f.Text))
			}
		}
	}
	if len(hosts) > 0 {
		b.WriteString("\n| host | kernel | what `hybrid-pleg run` does |\n|---|---|---|\n")
		b.WriteString(strings.Join(hosts, ""))
	}
	return b.String()
}

func (r Result) kernel() string {
	if r.Release != "" {
		return r.Release
	}
	return r.Run.Kernel.Name
}

// tests sums up the suites of the packages.
func (r Result) tests() string {
	var failed []string
	tried, passed := false, 0
	for _, want := range r.Run.Suites {
		if want.Runtime {
			continue
		}
		tried = true
		i := slices.IndexFunc(r.Suites, func(s SuiteResult) bool { return s.Name == want.Name })
		if i < 0 || r.Suites[i].Code != 0 {
			failed = append(failed, want.Name)
			continue
		}
		passed += r.Suites[i].Passed
	}
	if len(failed) > 0 {
		return "FAILED: " + strings.Join(failed, ", ")
	}
	if !tried {
		return "not tried"
	}
	return fmt.Sprintf("works (%d tests)", passed)
}

// cell is what was found of a subject, which one of the suites is about.
func (r Result) cell(subject string, suites ...Suite) string {
	for _, f := range r.Findings() {
		if f.Subject == subject {
			return f.Text
		}
	}
	for _, s := range suites {
		if slices.ContainsFunc(r.Run.Suites, func(other Suite) bool { return other.Name == s.Name }) {
			return "FAILED"
		}
	}
	return "not tried"
}

// The table stands between these in its file.
const (
	tableBegin = "<!-- table: written by make test-kernels -->\n"
	tableEnd   = "<!-- end of table -->\n"
)

// WriteTable puts the table into a Markdown file, in the place of the one that is there.
func WriteTable(file, table string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	before, rest, ok := bytes.Cut(text, []byte(tableBegin))
	_, after, ended := bytes.Cut(rest, []byte(tableEnd))
	if !ok || !ended {
		return fmt.Errorf("%s has no lines %q and %q for the table to stand between", file,
			strings.TrimSpace(tableBegin), strings.TrimSpace(tableEnd))
	}
	out := slices.Concat(before, []byte(tableBegin+"\n"+table+"\n"+tableEnd), after)
	if bytes.Equal(out, text) {
		return nil
	}
	return os.WriteFile(file, out, 0o644)
}
