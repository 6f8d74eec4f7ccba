package main

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"berth/admin/client"
	"berth/fleet/wire"
	"berth/status"
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
	w := tabwriter.NewWriter(a.out, 0, 8, 2, ' ', 0)
	a.banner(s)
	fmt.Fprintf(w, "CLUSTER\t%s\tleader %s\tindex %s\tknown %dms ago\n", short(s.Cluster), cell(s.Leader), s.Index, s.KnowledgeAgeMS)
	n := s.Nodes
	fmt.Fprintf(w, "NODES\t%d\tready %d\tcordoned %d\tdraining %d\tunreachable %d\n", n.Total, n.Ready, n.Cordoned, n.Draining, n.Unreachable)
	r := s.Replicas
	fmt.Fprintf(w, "REPLICAS\t\tready %d\tstarting %d\tdraining %d\tfailed %d\n", r.Ready, r.Starting, r.Draining, r.Failed)
	fmt.Fprintf(w, "MODELS\t%d\tsatisfied %d\tshort %d\n", s.Models.Total, s.Models.Satisfied, s.Models.Short)
	fmt.Fprintln(w)
	fmt.Fprintln(w, "CLASS\tUSE\tTOTAL\tUSED\tFREE\tUNHEALTHY\tWITHHELD")
	for _, g := range s.GPUs {
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%d\t%d\n", g.Class, bar(g.Used, g.Total), g.Total, g.Used, g.Free, g.Unhealthy, g.Withheld)
	}
	fmt.Fprintln(w)
	fmt.Fprintln(w, "FABRIC\tNODES\tFREE NODES\tLARGEST FREE BLOCK")
	for _, f := range s.Fabrics {
		name := "(unknown)"
		if f.Fabric != nil {
			name = *f.Fabric
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\n", name, f.Nodes, f.FreeNodes, f.LargestFreeBlock)
	}
	a.printLists(w, s)
	return w.Flush()
}

// banner prints first what changes how everything else is to be read.
func (a *app) banner(s wire.Status) {
	if s.Frozen != nil {
		fmt.Fprintf(a.out, "FROZEN by %s: %s\n", cell(s.Frozen.By), s.Frozen.Reason)
	}
	if s.Brake != nil {
		fmt.Fprintf(a.out, "BRAKE: %s\n", *s.Brake)
	}
	if s.Leader == "" {
		fmt.Fprintln(a.out, "NO LEADER: this is what the answering peer knows; idle times are unknown")
	}
}

func (a *app) printLists(w *tabwriter.Writer, s wire.Status) {
	if len(s.Unplaceable) > 0 {
		fmt.Fprintln(w, "\nNOT PLACED\tSINCE\tREASON")
	}
	for _, u := range s.Unplaceable {
		fmt.Fprintf(w, "%s\t%s\t%s\n", u.Model, age(u.SinceSeconds), u.Reason)
		if u.WouldHelp != "" {
			fmt.Fprintf(w, "\t\twould help: %s\n", u.WouldHelp)
		}
	}
	if len(s.IdleReplicas) > 0 {
		fmt.Fprintln(w, "\nCAN BE STOPPED\tMODEL\tIDLE\tQUIET\tGPUS")
	}
	for _, i := range s.IdleReplicas {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\n", i.ID, i.Model, age(i.IdleSeconds), age(i.QuietSeconds), i.GPUs)
	}
	if len(s.Silent.Agents)+len(s.Silent.Routers) > 0 {
		fmt.Fprintf(w, "\nSILENT\tagents: %s\trouters: %s\n", cell(strings.Join(s.Silent.Agents, ", ")), cell(strings.Join(s.Silent.Routers, ", ")))
	}
	if len(s.Attention) > 0 {
		fmt.Fprintln(w, "\nNEEDS A PERSON")
	}
	for _, text := range s.Attention {
		fmt.Fprintf(w, "  %s\n", text)
	}
}

// barWidth is the width of a usage bar in characters.
const barWidth = 20

// bar draws used of total in characters that need no colour.
func bar(used, total int) string {
	full := 0
	if total > 0 {
		full = (used*barWidth + total/2) / total
	}
	return "[" + strings.Repeat("#", full) + strings.Repeat(".", barWidth-full) + "]"
}
