package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"berth/admin/client"
	"berth/fleet/wire"
)

func (a *app) rolloutCmd() *cobra.Command {
	c := &cobra.Command{Use: "rollout", Short: "watch, pause or resume the replacement of a model's replicas after its spec has changed"}
	c.AddCommand(a.rolloutStatus(), a.rolloutPause("pause", "stop a rollout where it is; what is missing is placed all the same", true),
		a.rolloutPause("resume", "let a paused rollout go on", false))
	return c
}

func (a *app) rolloutStatus() *cobra.Command {
	var watch bool
	c := &cobra.Command{Use: "status NAME", Short: "where a rollout stands; exit 2 while it is not complete, 3 when it needs a person", Args: cobra.ExactArgs(1)}
	c.RunE = func(cmd *cobra.Command, args []string) error {
		var last wire.RolloutView
		err := a.listing(cmd, watch, func(ctx context.Context, c *client.Client, o client.ReadOptions) (client.Meta, error) {
			v, meta, err := c.Rollout(ctx, args[0], o)
			if err != nil {
				return meta, err
			}
			last = v
			if a.json {
				return meta, a.printJSON(v)
			}
			fmt.Fprintln(a.out, rolloutLine(v))
			return meta, nil
		})
		if err != nil {
			return err
		}
		return rolloutExit(last)
	}
	c.Flags().BoolVar(&watch, "watch", false, "show it again whenever it changes")
	return c
}

func rolloutLine(v wire.RolloutView) string {
	line := fmt.Sprintf("%s: generation %d is %s: %d of %d new replicas ready, %d old to replace", v.Model, v.Generation, v.State, v.NewReady, v.Want, v.Old)
	if v.Failed > 0 {
		line += fmt.Sprintf(", %d failed", v.Failed)
	}
	if v.Ending > 0 {
		line += fmt.Sprintf(", %d draining", v.Ending)
	}
	if v.Reason != "" {
		line += "\n  " + v.Reason
	}
	return line
}

func rolloutExit(v wire.RolloutView) error {
	switch v.State {
	case "complete":
		return nil
	case "stopped":
		return exit{code: exitPerson}
	default:
		return exit{code: exitNotPlaced}
	}
}

func (a *app) rolloutPause(verb, short string, paused bool) *cobra.Command {
	return &cobra.Command{Use: verb + " NAME", Short: short, Args: cobra.ExactArgs(1),
		RunE: a.with(func(ctx context.Context, c *client.Client, args []string) error {
			ans, err := c.PauseRollout(ctx, args[0], paused)
			if err != nil || a.json {
				return orJSON(a, ans, err)
			}
			text := "already " + verb + "d"
			if ans.Changed {
				text = verb + "d"
			}
			fmt.Fprintf(a.out, "%s: %s\n", args[0], text)
			return nil
		})}
}
