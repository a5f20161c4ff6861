package kerneltest

import (
	"bufio"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Result is what came of a run.
type Result struct {
	Run     Run
	Release string // of the kernel; empty if the machine never came up
	Suites  []SuiteResult
	// Done: the machine did all it was asked for, whatever came of it.
	Done bool
	// Err is what is wrong with the machine itself.
	Err  error
	Took time.Duration
}

// SuiteResult is what came of a suite.
type SuiteResult struct {
	Name                    string
	Code                    int // exit code; -1 if it never ended
	Passed, Failed, Skipped int // tests and subtests
	Took                    time.Duration
	// Failures are the names of the tests that failed.
	Failures []string
	// Findings are for the table.
	Findings []Finding
}

// Finding is something that a test says of the kernel or of what is lacking.
type Finding struct{ Subject, Text string }

// OK reports whether all that was asked for was done, and passed.
func (r Result) OK() bool {
	for _, s := range r.Suites {
		if s.Code != 0 {
			return false
		}
	}
	return r.Err == nil && r.Done && len(r.Suites) == len(r.Run.Suites)
}

// Findings are those of all suites.
func (r Result) Findings() []Finding {
	var all []Finding
	for _, s := range r.Suites {
		all = append(all, s.Findings...)
	}
	return all
}

// readResult reads what a machine says, in the form that doc.go tells. It copies all of it to
// log, and calls ended after each suite.
func readResult(r io.Reader, log io.Writer, result *Result, ended func(SuiteResult)) error {
	// "    file_test.go:12: matrix: ebpf: starts and ends are found"
	finding := regexp.MustCompile(`\bmatrix: ([^:]+): (.*)$`)
	outcome := regexp.MustCompile(`^\s*--- (PASS|FAIL|SKIP): (\S+)`)
	var current *SuiteResult
	var began time.Time
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := strings.TrimRight(lines.Text(), "\r")
		fmt.Fprintln(log, line)
		if words := strings.Fields(line); len(words) > 1 && words[0] == "@@" {
			switch {
			case words[1] == "boot" && len(words) > 2:
				result.Release = words[2]
			case words[1] == "begin" && len(words) > 2:
				current, began = &SuiteResult{Name: words[2], Code: -1}, time.Now()
			case words[1] == "end" && len(words) > 3 && current != nil:
				code, err := strconv.Atoi(words[3])
				if err != nil {
					return fmt.Errorf("the machine says %q: %w", line, err)
				}
				current.Code, current.Took = code, time.Since(began)
				result.Suites = append(result.Suites, *current)
				ended(*current)
				current = nil
			case words[1] == "done":
				result.Done = true
			}
			continue
		}
		if current == nil {
			continue
		}
		if m := outcome.FindStringSubmatch(line); m != nil {
			switch m[1] {
			case "PASS":
				current.Passed++
			case "SKIP":
				current.Skipped++
			case "FAIL":
				current.Failed++
				current.Failures = append(current.Failures, m[2])
			}
		}
		if m := finding.FindStringSubmatch(line); m != nil {
			current.Findings = append(current.Findings, Finding{m[1], m[2]})
		}
	}
	if current != nil { // it never ended
		result.Suites = append(result.Suites, *current)
		ended(*current)
	}
	return lines.Err()
}
