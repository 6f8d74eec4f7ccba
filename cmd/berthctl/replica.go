package main

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"berth/admin/client"
	"berth/fleet/wire"
)

// replicaStates are what --state takes.
var replicaStates = []string{"starting", "ready", "draining", "stopped", "failed"}

func (a *app) replicasCmd() *cobra.Command {
	var watch bool
	filter := map[string]*string{"model": new(string), "node": new(string), "state": new(string)}
	c := &cobra.Command{Use: "replicas", Short: "list the replicas, with IDLE (since the last use) and QUIET (how long it is certain that nobody used it)", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if state := *filter["state"]; state != "" && !slices.Contains(replicaStates, state) {
				return usageError{fmt.Errorf("--state %q is no state of a replica; use one of %s", state, strings.Join(replicaStates, ", "))}
			}
			return a.listing(cmd, watch, func(ctx context.Context, c *client.Client, o client.ReadOptions) (client.Meta, error) {
				q := url.Values{}
				for k, v := range filter {
					if *v != "" {
						q.Set(k, *v)
					}
				}
				if o.Consistency != "" {
					q.Set("consistency", o.Consistency)
				}
				return a.showReplicas(ctx, c, q)
			})
		}}
	c.Flags().BoolVar(&watch, "watch", false, "show it again every second")
	c.Flags().StringVar(filter["model"], "model", "", "only of this model")
	c.Flags().StringVar(filter["node"], "node", "", "only with a shard on this node")
	c.Flags().StringVar(filter["state"], "state", "", "only in this state: "+strings.Join(replicaStates, ", "))
	return c
}

func (a *app) showReplicas(ctx context.Context, c *client.Client, q url.Values) (client.Meta, error) {
	list, meta, err := c.Replicas(ctx, q)
	if err != nil {
		return meta, err
	}
	return meta, rows(a, list, "ID MODEL STATE AGE GEN NODES GPUS IN-FLIGHT IDLE QUIET RESTARTS NOTE", func(r wire.ReplicaView) []any {
		return []any{r.ID, r.Model, r.State, age(r.AgeSeconds), r.Generation, placed(r), gpusOf(r), number(r.InFlight), age(r.IdleSeconds), age(r.QuietSeconds), r.Restarts, note(r)}
	})
}

func placed(r wire.ReplicaView) string {
	names := make([]string, len(r.Shards))
	for i, s := range r.Shards {
		names[i] = s.Node
	}
	return strings.Join(names, ",")
}

func gpusOf(r wire.ReplicaView) string {
	n := 0
	for _, s := range r.Shards {
		for _, c := range s.Claims {
			if c.Share > 0 {
				return c.Share.String()
			}
			n++
		}
	}
	return fmt.Sprint(n)
}

// number writes a count; an unknown one is "-".
func number(n int) string {
	if n < 0 {
		return "-"
	}
	return fmt.Sprint(n)
}

func note(r wire.ReplicaView) string {
	notes := append([]string{}, r.Marks...)
	if r.Lost {
		notes = append(notes, "lost")
	}
	if r.Reason != "" {
		notes = append(notes, r.Reason)
	}
	return strings.Join(notes, "; ")
}

func (a *app) replicaCmd() *cobra.Command {
	c := &cobra.Command{Use: "replica", Short: "show, stop or restart one replica, or read its logs"}
	c.AddCommand(
		&cobra.Command{Use: "show ID", Short: "one replica", Args: cobra.ExactArgs(1), RunE: a.with(a.replicaShow)},
		a.replicaVerb("stop", "drain a replica and stop it", "stopping"),
		a.replicaVerb("restart", "start a replica's engine again", "restarting"),
		a.replicaLogs(),
	)
	return c
}

func (a *app) replicaShow(ctx context.Context, c *client.Client, args []string) error {
	r, _, err := c.Replica(ctx, args[0])
	if err != nil || a.json {
		return orJSON(a, r, err)
	}
	w := tabwriter.NewWriter(a.out, 0, 8, 2, ' ', 0)
	fmt.Fprintf(w, "model\t%s, generation %d\n", r.Model, r.Generation)
	fmt.Fprintf(w, "state\t%s for %s\n", r.State, age(r.AgeSeconds))
	if n := note(r); n != "" {
		fmt.Fprintf(w, "note\t%s\n", harmless(n))
	}
	if r.Door != nil {
		fmt.Fprintf(w, "door\t%s\n", r.Door.Address)
	}
	fmt.Fprintf(w, "idle\t%s\nquiet\t%s\nin flight\t%s\n", age(r.IdleSeconds), age(r.QuietSeconds), number(r.InFlight))
	fmt.Fprintf(w, "restarts\t%d\n", r.Restarts)
	for rank, s := range r.Shards {
		fmt.Fprintf(w, "shard %d\t%s, %d card(s)\n", rank, s.Node, len(s.Claims))
		if s.Exit != nil {
			fmt.Fprintf(w, "last exit\tcode %d %s\n", s.Exit.Code, s.Exit.Signal)
			for _, line := range s.Exit.Log {
				fmt.Fprintf(w, "\t%s\n", harmless(line))
			}
		}
	}
	return w.Flush()
}

func (a *app) replicaVerb(verb, short, doing string) *cobra.Command {
	var reason string
	c := &cobra.Command{Use: verb + " ID", Short: short, Args: cobra.ExactArgs(1), RunE: a.asking(verb+" the replica %s", func(ctx context.Context, c *client.Client, args []string) error {
		return a.say(c.ReplicaDo(ctx, args[0], verb, reason), "%s: %s", args[0], doing)
	})}
	c.Flags().StringVar(&reason, "reason", "", "why, for the events")
	return c
}

func (a *app) replicaLogs() *cobra.Command {
	var follow bool
	var tail, shard int
	c := &cobra.Command{Use: "logs ID", Short: "the output of a replica's engine", Args: cobra.ExactArgs(1), RunE: func(cmd *cobra.Command, args []string) error {
		c, err := a.client()
		if err != nil {
			return usageError{err}
		}
		ctx, cancel := cmd.Context(), context.CancelFunc(func() {})
		if !follow {
			ctx, cancel = context.WithTimeout(ctx, a.timeout)
		}
		defer cancel()
		body, err := c.ReplicaLogs(ctx, args[0], shard, tail, follow)
		if err != nil {
			return err
		}
		defer body.Close()
		if _, err = io.Copy(a.out, body); err != nil && cmd.Context().Err() != nil {
			return nil // interrupted: that is how following ends
		}
		return err
	}}
	c.Flags().BoolVarP(&follow, "follow", "f", false, "go on with what is written")
	c.Flags().IntVar(&tail, "tail", 200, "how many of the last lines")
	c.Flags().IntVar(&shard, "shard", 0, "which shard of a replica over several nodes")
	return c
}

func (a *app) idleCmd() *cobra.Command {
	return &cobra.Command{Use: "idle", Short: "what nobody asks for: every replica's idle and quiet time, longest quiet first", Args: cobra.NoArgs,
		RunE: a.do(func(ctx context.Context, c *client.Client) error {
			ans, _, err := c.Idle(ctx)
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(ans)
			}
			return rows(a, ans.Replicas, "ID MODEL IDLE QUIET AS-OF IN-FLIGHT GPUS NOTE", func(r wire.IdleView) []any {
				return []any{r.ID, r.Model, age(r.IdleSeconds), age(r.QuietSeconds), age(r.AsOfSeconds), number(r.InFlight), r.GPUs, r.Why}
			})
		})}
}
