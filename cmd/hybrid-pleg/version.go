package main

import (
	"fmt"

	"github.com/hybrid-pleg/hybrid-pleg/internal/version"
	"github.com/spf13/cobra"
)

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Tell which build this is",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), version.Details())
			return err
		},
	}
}
