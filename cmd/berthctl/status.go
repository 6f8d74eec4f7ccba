package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"berth/admin/client"
	"berth/fleet/wire"
	"berth/status"
	"berth/status/screen"
)

func (a *app) statusCmd() *cobra.Command {
	var watch bool
	c := &cobra.Command{Use: "status", Short: "the whole fleet on one screen", Args: cobra.NoArgs,
		Long: "The whole fleet on one screen. Exit code 0: all is well; 2: a model is not placed; 3: something needs a person.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			var last wire.Status
			err := a.listing(cmd, watch, func(ctx context.Context, c *client.Client, o client.ReadOptions) (client.Meta, error) {
				s, meta, err := c.Status(ctx, o)
				if err != nil {
					return meta, err
				}
				last = s
				if a.json {
					return meta, a.printJSON(s)
				}
				return meta, a.printStatus(s)
			})
			if code := status.ExitCode(last); err == nil && !watch && code != exitOK {
				return exit{code: code}
			}
			return err
		}}
	c.Flags().BoolVar(&watch, "watch", false, "show it again whenever it changes")
	return c
}

func (a *app) printStatus(s wire.Status) error {
	width, height := a.extent()
	for _, line := range screen.Render(s, screen.Options{Width: width, Height: height, Colour: a.colour()}) {
		fmt.Fprintln(a.out, line)
	}
	return nil
}
