package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"berth/internal/modelfile"
)

func configCmd() *cobra.Command {
	c := &cobra.Command{Use: "config", Short: "check configuration files", RunE: func(c *cobra.Command, args []string) error {
		return usageError{fmt.Errorf("config needs a verb: check\n  see %s --help", c.CommandPath())}
	}}
	var role string
	check := &cobra.Command{
		Use: "check FILE", Short: "check a role's configuration file, or a model file, and change nothing", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := checkFile(role, args[0]); err != nil {
				return usageError{err}
			}
			fmt.Fprintf(c.OutOrStdout(), "%s: good\n", args[0])
			return nil
		},
	}
	check.Flags().StringVar(&role, "role", "", "peer, agent or router (default: what the file fits)")
	c.AddCommand(check)
	return c
}

// checkFile reads the file as what it is: a model file says so itself, a role's file is one that the role's flags and fields fit.
func checkFile(role, path string) error {
	doc, err := firstDocument(path)
	if err != nil {
		return err
	}
	if doc.Field("kind") != "" {
		_, err := modelfile.Load(path, nil)
		return err
	}
	roles := []string{"agent", "router", "peer"}
	if role != "" {
		roles = []string{role}
	}
	var first error
	for _, r := range roles {
		if err = checkRole(r, path); err == nil {
			return nil
		}
		if first == nil {
			first = fmt.Errorf("as the file of an %s: %w", r, err)
		}
	}
	return first
}

func checkRole(role, path string) error {
	switch role {
	case "peer":
		f := &peerFlags{common: newCommon(role)}
		c := &cobra.Command{}
		f.add(c)
		f.config = path
		_, err := f.resolve(c)
		return err
	case "agent":
		f := &agentFlags{common: newCommon(role)}
		c := &cobra.Command{}
		f.add(c)
		f.config = path
		cfg, _, err := f.resolve(c)
		if err == nil {
			_, err = f.drivers(&cfg)
		}
		return err
	case "router":
		f := &routerFlags{common: newCommon(role)}
		c := &cobra.Command{}
		f.add(c)
		f.config = path
		_, _, err := f.resolve(c)
		return err
	}
	return fmt.Errorf("there is no role %q with a configuration file; use peer, agent or router", role)
}
