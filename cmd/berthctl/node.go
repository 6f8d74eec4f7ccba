package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"berth/admin/client"
	"berth/fleet"
	"berth/fleet/wire"
)

func (a *app) nodesCmd() *cobra.Command {
	return a.watchable("nodes", "list the GPU nodes, also those that only gossip knows", a.showNodes)
}

func (a *app) showNodes(ctx context.Context, c *client.Client, o client.ReadOptions) (client.Meta, error) {
	nodes, meta, err := c.Nodes(ctx, o)
	if err != nil {
		return meta, err
	}
	return meta, rows(a, nodes, "NAME STATE CLASSES FREE FABRIC REPLICAS HEARD ENGINES ADDRESS NOTE", func(n wire.NodeView) []any {
		return []any{n.Name, n.State, classes(n), fmt.Sprintf("%d/%d", n.GPUsFree, n.GPUsTotal), n.FabricName, n.Replicas, age(n.HeartbeatSeconds), offers(n), n.Address, nodeNote(n)}
	})
}

// classes writes a node's cards per class, never as one sum: "8xh100-sxm-80gb".
func classes(n wire.NodeView) string {
	var order []string
	count := map[string]int{}
	for _, g := range n.Inventory.GPUs {
		class := n.Class(g)
		if count[class] == 0 {
			order = append(order, class)
		}
		count[class]++
	}
	for i, class := range order {
		order[i] = fmt.Sprintf("%dx%s", count[class], class)
	}
	return strings.Join(order, ",")
}

func offers(n wire.NodeView) string {
	var names []string
	for _, o := range n.Engines {
		names = append(names, o.Driver)
	}
	return strings.Join(names, ",")
}

func nodeNote(n wire.NodeView) string {
	var notes []string
	for _, text := range []string{n.Reason, n.AdminReason, n.Inventory.Note} {
		if text != "" {
			notes = append(notes, text)
		}
	}
	return strings.Join(notes, "; ")
}

func (a *app) nodeCmd() *cobra.Command {
	c := &cobra.Command{Use: "node", Short: "show, cordon, drain or forget one node"}
	c.AddCommand(
		&cobra.Command{Use: "show NODE", Short: "one node", Args: cobra.ExactArgs(1), RunE: a.with(a.nodeShow)},
		&cobra.Command{Use: "explain NODE", Short: "what a node could take, and why not more", Args: cobra.ExactArgs(1), RunE: a.with(a.nodeExplain)},
		a.nodeVerb("cordon", "place nothing new on a node; what runs there stays"),
		a.nodeVerb("uncordon", "make a node schedulable again"),
		a.nodeDrain(),
		&cobra.Command{Use: "undrain NODE", Short: "cancel a node's drain, or make a drained node schedulable again", Args: cobra.ExactArgs(1), RunE: a.with(func(ctx context.Context, c *client.Client, args []string) error {
			return a.say(c.UndrainNode(ctx, args[0]), "%s: schedulable", args[0])
		})},
		&cobra.Command{Use: "forget NODE", Short: "forget a node that is gone for good", Args: cobra.ExactArgs(1), RunE: a.asking("forget the node %s and release everything placed there", func(ctx context.Context, c *client.Client, args []string) error {
			return a.say(c.ForgetNode(ctx, args[0]), "%s: forgotten", args[0])
		})},
	)
	return c
}

// say prints what was done, or returns the error.
func (a *app) say(err error, format string, args ...any) error {
	switch text := fmt.Sprintf(format, args...); {
	case err != nil:
		return err
	case a.json:
		return a.printJSON(map[string]string{"done": text})
	default:
		fmt.Fprintln(a.out, harmless(text))
		return nil
	}
}

func (a *app) nodeShow(ctx context.Context, c *client.Client, args []string) error {
	n, _, err := c.Node(ctx, args[0])
	if err != nil || a.json {
		return orJSON(a, n, err)
	}
	fmt.Fprintf(a.out, "%s is %s; agent %s at %s, heard %s ago\n", n.Name, n.State, n.Version, n.Address, age(n.HeartbeatSeconds))
	fmt.Fprintf(a.out, "fabric %s, %d cpus, %s memory, inventory from %s\n", cell(n.FabricName), n.Inventory.CPUs, size(n.Inventory.Memory), n.Inventory.Source)
	if t := nodeNote(n); t != "" {
		fmt.Fprintln(a.out, t)
	}
	return rows(a, n.Inventory.GPUs, "GPU CLASS MEMORY HEALTH UUID NOTE", func(g fleet.GPU) []any {
		return []any{g.Index, n.Class(g), size(g.Memory), g.Health, g.UUID, g.Reason}
	})
}

func (a *app) nodeExplain(ctx context.Context, c *client.Client, args []string) error {
	text, err := c.ExplainNode(ctx, args[0])
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(map[string]string{"node": args[0], "text": text})
	}
	fmt.Fprintln(a.out, text)
	return nil
}

func (a *app) nodeVerb(verb, short string) *cobra.Command {
	var reason string
	c := &cobra.Command{Use: verb + " NODE", Short: short, Args: cobra.ExactArgs(1), RunE: a.with(func(ctx context.Context, c *client.Client, args []string) error {
		return a.say(c.NodeDo(ctx, args[0], verb, reason), "%s: %sed", args[0], verb)
	})}
	c.Flags().StringVar(&reason, "reason", "", "why, kept with the node")
	return c
}

func (a *app) nodeDrain() *cobra.Command {
	var reason string
	var deadline time.Duration
	var detach bool
	c := &cobra.Command{Use: "drain NODE", Short: "move everything off a node; joins a drain that runs", Args: cobra.ExactArgs(1), RunE: func(cmd *cobra.Command, args []string) error {
		c, err := a.client()
		if err != nil {
			return usageError{err}
		}
		if err := a.confirm(cmd.Context(), "drain the node %s", args[0]); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), a.timeout)
		defer cancel()
		if err := c.DrainNode(ctx, args[0], reason, deadline); err != nil {
			return err
		}
		if detach {
			return a.say(nil, "%s: draining", args[0])
		}
		return a.watchDrain(cmd.Context(), c, args[0])
	}}
	c.Flags().StringVar(&reason, "reason", "", "why, kept with the node")
	c.Flags().DurationVar(&deadline, "deadline", time.Hour, "give up after this long; what is left stays where it is")
	c.Flags().BoolVar(&detach, "detach", false, "return at once")
	return c
}

// drainTimedOut says what a drain has left at its deadline, what that waits for, and how an operator goes on.
func drainTimedOut(node string, d wire.DrainView) string {
	text := fmt.Sprintf("%s: the drain's deadline has passed; the node is cordoned, and this serves on: %s", node, cell(strings.Join(d.Left, ", ")))
	for _, why := range d.Waiting {
		text += "\n  " + why
	}
	return text + "\n" + strings.Join([]string{
		"  to give it more time: berthctl node drain " + node + " --deadline DURATION",
		"  to empty the node without a replacement: berthctl replica stop ID, for each; its model is short of it until there is room",
		"  to use the node again: berthctl node undrain " + node,
	}, "\n")
}

// watchDrain follows a drain to its end, saying what is left whenever that changes.
func (a *app) watchDrain(ctx context.Context, c *client.Client, node string) error {
	var after fleet.Index
	last := ""
	for {
		d, meta, err := c.NodeDrain(ctx, node, client.ReadOptions{Index: after, Wait: waitFor(after)})
		switch {
		case ctx.Err() != nil:
			return exit{exitError, fmt.Sprintf("%s: the drain goes on; berthctl node undrain %s cancels it", node, node)}
		case errors.Is(err, fleet.NotFound):
			return err
		case err != nil:
			fmt.Fprintln(a.err, "berthctl:", describe(err))
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
			continue
		case d.State == "done":
			return a.say(nil, "%s: drained", node)
		case d.State == "timed_out":
			return exit{exitTimeout, drainTimedOut(node, d)}
		case d.State == "cancelled":
			return exit{exitError, node + ": the drain was cancelled"}
		}
		text := fmt.Sprintf("%s: draining, left: %s", node, cell(strings.Join(d.Left, ", ")))
		for _, why := range d.Waiting {
			text += "\n  " + why
		}
		if text != last {
			fmt.Fprintln(a.err, text)
			last = text
		}
		after = meta.Index
	}
}
