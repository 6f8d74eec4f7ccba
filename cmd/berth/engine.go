package main

import (
	"github.com/spf13/cobra"

	"berth/agent/engine/sim"
)

// engineCmd hands its whole command line on: the simulated engine takes vLLM's flags, and is told by signals like a real one.
func engineCmd() *cobra.Command {
	return &cobra.Command{
		Use: "engine MODEL [flags of vllm serve]", Short: "run a simulated engine: vLLM's API and metrics, no GPU",
		DisableFlagParsing: true,
		RunE: func(c *cobra.Command, args []string) error {
			if code := sim.Main(c.Context(), args, c.ErrOrStderr()); code != 0 {
				return exitCode(code)
			}
			return nil
		},
	}
}
