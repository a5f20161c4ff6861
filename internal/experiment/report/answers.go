package report

import (
	"fmt"
	"io"
	"strings"
)

// WriteAnswers writes the findings as text, and where the whole report is.
func (s *Summary) WriteAnswers(w io.Writer, report string) error {
	var b strings.Builder
	for _, workload := range s.Workloads {
		fmt.Fprintf(&b, "%s\n", workload.Name)
		for _, answer := range workload.Answers {
			fmt.Fprintf(&b, "  %s\n", answer)
		}
	}
	if len(s.Workloads) == 0 {
		b.WriteString("Nothing was measured.\n")
	}
	fmt.Fprintf(&b, "The report is in %s.\n", report)
	_, err := io.WriteString(w, strings.ReplaceAll(b.String(), nbsp, " "))
	return err
}
