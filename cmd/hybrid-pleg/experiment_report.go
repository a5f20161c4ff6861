package main

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/hybrid-pleg/hybrid-pleg/internal/experiment/report"
	"github.com/hybrid-pleg/hybrid-pleg/internal/experiment/result"
	"github.com/spf13/cobra"
)

func experimentReportCommand() *cobra.Command {
	var opts report.Options
	cmd := &cobra.Command{
		Use:   "report DIR",
		Short: "Make an experiment's summary.json and report.html again",
		Long: `Make summary.json and report.html of the experiment in DIR again, from its run.json,
plan.yaml and transitions.ndjson, and print the answers. A run does so by itself at its
end; this is for another reference arm, or after an update.`,
		Example: `  hybrid-pleg experiment report results/periods
  hybrid-pleg experiment report results/periods --reference kubelet-generic`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := report.Write(args[0], opts)
			if errors.Is(err, report.ErrReference) {
				return usageError{fmt.Errorf("--reference: %w", err)}
			}
			if err != nil {
				return err
			}
			return s.WriteAnswers(cmd.OutOrStdout(), filepath.Join(args[0], result.ReportFile))
		},
	}
	cmd.Flags().StringVar(&opts.Reference, "reference", "", "the arm that the others are compared with (default: the first)")
	return cmd
}
