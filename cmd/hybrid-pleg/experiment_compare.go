package main

import (
	"fmt"

	"github.com/hybrid-pleg/hybrid-pleg/internal/experiment/compare"
	"github.com/hybrid-pleg/hybrid-pleg/internal/experiment/result"
	"github.com/spf13/cobra"
)

func experimentCompareCommand() *cobra.Command {
	var opts compare.Options
	var output string
	cmd := &cobra.Command{
		Use:   "compare A B",
		Short: "Set two experiments side by side, and say what differs beyond noise",
		Long: `Set the experiments in the directories A and B side by side, arm by arm and metric by
metric. A difference is beyond noise if its interval, corrected for the number of
differences looked at, excludes 0, and if it is large enough to matter.

Experiments that have too little in common are refused. Where something else differs
than what was meant to (the runtime, the machine, the plan), a warning says so.`,
		Example: `  hybrid-pleg experiment compare results/before results/after
  hybrid-pleg experiment compare results/before results/after --output html > difference.html`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			c := new(compare.Comparison)
			write := map[string]func() error{
				"text": func() error { return c.WriteText(cmd.OutOrStdout()) },
				"json": func() error { return c.WriteJSON(cmd.OutOrStdout()) },
				"html": func() error { return c.WriteHTML(cmd.OutOrStdout()) },
			}[output]
			if write == nil {
				return usageError{fmt.Errorf("--output %q: must be text, json or html", output)}
			}
			if opts.MinChange < 0 || opts.MinChange > 10 {
				return usageError{fmt.Errorf("--min-change %v: must be from 0 to 10, as 0.05 for 5 %%", opts.MinChange)}
			}
			a, err := result.Read(args[0])
			if err != nil {
				return err
			}
			b, err := result.Read(args[1])
			if err != nil {
				return err
			}
			if c, err = compare.Compare(a, b, opts); err != nil {
				return err
			}
			return write()
		},
	}
	f := cmd.Flags()
	f.StringVar(&output, "output", "text", "text, json, or html: a page that needs nothing else")
	f.Float64Var(&opts.MinChange, "min-change", compare.DefaultMinChange, "the least difference that matters, as a share of A's figure")
	return cmd
}
