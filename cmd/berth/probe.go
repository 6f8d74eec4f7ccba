package main

import (
	"os"

	"github.com/spf13/cobra"

	"berth/agent/gpu/nvml"
)

// probeCmd is the agent's child that reads the cards.
func probeCmd() *cobra.Command {
	var library string
	c := &cobra.Command{Use: "gpu-probe", Hidden: true, Short: "read the cards for the agent (internal)", Args: cobra.NoArgs, RunE: func(c *cobra.Command, _ []string) error {
		return nvml.Serve(c.Context(), library, os.Stdin, os.Stdout)
	}}
	c.Flags().StringVar(&library, "library", "", "path of libnvidia-ml.so.1 (default: where the linker finds it)")
	return c
}
