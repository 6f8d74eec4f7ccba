// Command berth runs one role of a Berth cluster: a peer of the control plane, the agent of a GPU node, a router for clients, a simulated engine,
// or a whole cluster for development. It fills configurations from flags, environment and files, and starts what they describe.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"berth/fsm"
	"berth/internal/release"
)

const exitUsage = 64

func main() { os.Exit(execute(context.Background(), os.Args[1:], os.Stdout, os.Stderr)) }

// usageError is a mistake in the command line or in a configuration file.
type usageError struct{ error }

// exitCode ends the process with a code of its own; what was wrong has been said.
type exitCode int

func (c exitCode) Error() string { return fmt.Sprintf("exit %d", int(c)) }

func execute(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	// A snapshot, a log or a folder that this process makes is for its owner alone, whatever the library that makes it asks for.
	restrictUmask()
	root := &cobra.Command{
		Use:           "berth",
		Short:         "LLM inference on GPU machines that you own, without Kubernetes",
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return c.Help()
			}
			return usageError{fmt.Errorf("there is no role %q; use peer, agent, router, engine or dev", args[0])}
		},
	}
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usageError{fmt.Errorf("%w\n  see %s --help", err, c.CommandPath())}
	})
	root.AddCommand(peerCmd(), agentCmd(), routerCmd(), engineCmd(), devCmd(), configCmd(), versionCmd(), shimCmd(), probeCmd())
	strictArgs(root)
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	var code exitCode
	switch {
	case err == nil:
		return 0
	case errors.As(err, &code):
		return int(code)
	}
	fmt.Fprintln(stderr, "berth:", strings.ReplaceAll(err.Error(), "\n", "\n  "))
	if errors.As(err, new(usageError)) {
		return exitUsage
	}
	return 1
}

// strictArgs makes too many words, or too few, a mistake like any other; cobra alone speaks of unknown commands, and of no mistake.
func strictArgs(c *cobra.Command) {
	for _, sub := range c.Commands() {
		strictArgs(sub)
	}
	check := c.Args
	if check == nil || !c.HasParent() {
		return
	}
	c.Args = func(c *cobra.Command, args []string) error {
		err := check(c, args)
		switch {
		case err == nil:
			return nil
		case len(args) > 0 && check(c, nil) == nil:
			err = fmt.Errorf("it takes no argument, and was given %q", args[0])
		}
		return usageError{fmt.Errorf("%s: %w\n  usage: %s", c.CommandPath(), err, c.UseLine())}
	}
}

func versionCmd() *cobra.Command {
	return &cobra.Command{Use: "version", Short: "the release of this program", Args: cobra.NoArgs, RunE: func(c *cobra.Command, _ []string) error {
		fmt.Fprintf(c.OutOrStdout(), "berth %s (level %d, %s %s/%s)\n", release.Version, fsm.Level, runtime.Version(), runtime.GOOS, runtime.GOARCH)
		return nil
	}}
}
