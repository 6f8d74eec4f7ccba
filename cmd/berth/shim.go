package main

import (
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"berth/agent"
	"berth/agent/shim"
	"berth/agent/shim/process"
)

// shimCmd is the process that owns one replica's engine. The agent starts it; it outlives the agent.
func shimCmd() *cobra.Command {
	var dir string
	c := &cobra.Command{Use: "shim", Hidden: true, Short: "own one engine for the agent (internal)", Args: cobra.NoArgs, RunE: func(c *cobra.Command, _ []string) error {
		return process.Main(c.Context(), dir)
	}}
	c.Flags().StringVar(&dir, "dir", "", "the shim's folder, which the agent has made")
	return c
}

// shimMaker makes shims that are processes of this program.
func shimMaker(cfg *agent.Config) (shim.Maker, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return process.New(process.Config{
		Dir: filepath.Join(cfg.DataDir, "shims"), LogDir: filepath.Join(cfg.DataDir, "logs"), Command: []string{self, "shim"}, Logger: cfg.Logger,
	})
}
