package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"berth/admin/client"
	"berth/fleet"
	"berth/fleet/wire"
	"berth/internal/modelfile"
)

func (a *app) modelsCmd() *cobra.Command {
	return a.watchable("models", "list the models", a.showModels)
}

// watchable is the command of a list that takes nothing but --watch.
func (a *app) watchable(use, short string, show func(context.Context, *client.Client, client.ReadOptions) (client.Meta, error)) *cobra.Command {
	var watch bool
	c := &cobra.Command{Use: use, Short: short, Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		return a.listing(cmd, watch, show)
	}}
	c.Flags().BoolVar(&watch, "watch", false, "show it again whenever it changes")
	return c
}

// listing runs a list once or watches it.
func (a *app) listing(cmd *cobra.Command, watch bool, show func(context.Context, *client.Client, client.ReadOptions) (client.Meta, error)) error {
	c, err := a.client()
	if err != nil {
		return usageError{err}
	}
	if watch {
		return a.watch(cmd.Context(), func(ctx context.Context, o client.ReadOptions) (client.Meta, error) { return show(ctx, c, o) })
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), a.timeout)
	defer cancel()
	meta, err := show(ctx, c, client.ReadOptions{Consistency: a.consistency()})
	if err == nil {
		a.freshness(meta)
	}
	return err
}

func (a *app) showModels(ctx context.Context, c *client.Client, o client.ReadOptions) (client.Meta, error) {
	models, meta, err := c.Models(ctx, o)
	if err != nil {
		return meta, err
	}
	return meta, rows(a, models, "NAME STATE READY WANT MIN MAX GEN ENGINE CARDS PRIORITY", func(m wire.ModelView) []any {
		s := m.Spec
		return []any{s.Name, m.State, m.Ready, m.Want, s.Replicas.Min, s.Replicas.Max, m.Generation, s.Engine.Driver, cards(s.Placement), s.Priority}
	})
}

// cards writes what one replica takes: "2 nodes x 8", "1", or "2GiB" of a card.
func cards(p fleet.PlacementSpec) string {
	switch {
	case p.GPUShare > 0:
		return p.GPUShare.String()
	case p.Nodes > 1:
		return fmt.Sprintf("%dx%d", p.Nodes, p.GPUsPerNode)
	default:
		return strconv.Itoa(p.GPUsPerNode)
	}
}

func (a *app) modelCmd() *cobra.Command {
	c := &cobra.Command{Use: "model", Short: "apply, show, scale or delete one model"}
	list := a.modelsCmd()
	list.Use = "list"
	c.AddCommand(a.modelApply(), a.modelPlan(), a.modelDiff(), list, a.modelShow(), a.modelExplain(), a.modelScale(), a.modelDelete())
	return c
}

func fileFlag(c *cobra.Command, file *string) {
	c.Flags().StringVarP(file, "file", "f", "", "model file, folder of model files, or - for standard input")
	c.PreRunE = func(c *cobra.Command, _ []string) error {
		if *file == "" {
			return usageError{fmt.Errorf("%s needs -f FILE, a folder, or - for standard input", c.CommandPath())}
		}
		return nil
	}
}

func (a *app) modelApply() *cobra.Command {
	var file string
	var unplaceable bool
	c := &cobra.Command{Use: "apply -f FILE", Short: "create models or replace their specs", Args: cobra.NoArgs, RunE: a.do(func(ctx context.Context, c *client.Client) error {
		specs, err := modelfile.Load(file, a.in)
		if err != nil {
			return err
		}
		var answers []wire.ApplyAnswer
		for _, spec := range specs {
			ans, err := c.Apply(ctx, spec, client.ApplyOptions{AllowUnplaceable: unplaceable})
			if err != nil {
				return fmt.Errorf("model %s: %w", spec.Name, err)
			}
			answers = append(answers, ans)
			if !a.json {
				fmt.Fprintf(a.out, "%s: %s\n", spec.Name, verdict(ans))
			}
		}
		if a.json {
			if err := a.printJSON(answers); err != nil {
				return err
			}
		}
		return a.refusals(ctx, c, specs)
	})}
	fileFlag(c, &file)
	c.Flags().BoolVar(&unplaceable, "allow-unplaceable", false, "accept a model that no registered node could ever hold")
	return c
}

func verdict(ans wire.ApplyAnswer) string {
	if !ans.Changed {
		return fmt.Sprintf("unchanged (generation %d)", ans.Generation)
	}
	return fmt.Sprintf("applied, generation %d (index %s)", ans.Generation, ans.Index)
}

// refusals says what of these models has no place now, and ends with the code for it.
func (a *app) refusals(ctx context.Context, c *client.Client, specs []fleet.ModelSpec) error {
	plan, err := c.Plan(ctx, specs)
	if err != nil {
		fmt.Fprintln(a.err, "note: cannot say whether there is room:", describe(err))
		return nil
	}
	asked := map[string]bool{}
	for _, s := range specs {
		asked[s.Name] = true
	}
	code := exitOK
	for _, r := range plan.Refusals {
		if asked[r.Model] {
			fmt.Fprintf(a.err, "not placed: %s\n", refusal(r))
			code = exitNotPlaced
		}
	}
	if code != exitOK {
		return exit{code: code}
	}
	return nil
}

func refusal(r fleet.Refusal) string {
	text := fmt.Sprintf("%s is short of %d: %s", r.Model, r.Short, r.Reason)
	if r.WouldHelp != "" {
		text += "\n  would help: " + r.WouldHelp
	}
	return text
}

func (a *app) modelPlan() *cobra.Command {
	var file string
	c := &cobra.Command{Use: "plan -f FILE", Short: "say what applying would do, and change nothing", Args: cobra.NoArgs, RunE: a.do(func(ctx context.Context, c *client.Client) error {
		specs, err := modelfile.Load(file, a.in)
		if err != nil {
			return err
		}
		plan, err := c.Plan(ctx, specs)
		if err != nil {
			return err
		}
		if a.json {
			err = a.printJSON(plan)
		} else {
			a.printPlan(plan)
		}
		if err == nil && len(plan.Refusals) > 0 {
			return exit{code: exitNotPlaced}
		}
		return err
	})}
	fileFlag(c, &file)
	return c
}

func (a *app) printPlan(plan wire.PlanAnswer) {
	for _, item := range plan.Items {
		switch {
		case item.Place != nil:
			fmt.Fprintf(a.out, "place    %s generation %d on", item.Place.Model, item.Place.Generation)
			for _, s := range item.Place.Shards {
				fmt.Fprintf(a.out, " %s (%d)", s.Node, len(s.Claims))
			}
			fmt.Fprintln(a.out)
		case item.Stop != nil:
			fmt.Fprintf(a.out, "stop     %s: %s\n", item.Stop.Replica, item.Stop.Reason)
		case item.Restart != nil:
			fmt.Fprintf(a.out, "restart  %s: %s\n", item.Restart.Replica, item.Restart.Reason)
		case item.Wake != nil:
			fmt.Fprintf(a.out, "wake     %s\n", item.Wake.Model)
		}
	}
	for _, r := range plan.Refusals {
		fmt.Fprintf(a.out, "refused  %s\n", refusal(r))
	}
	if len(plan.Items)+len(plan.Refusals) == 0 {
		fmt.Fprintln(a.out, "nothing would change")
	}
}

func (a *app) modelDiff() *cobra.Command {
	var file string
	c := &cobra.Command{Use: "diff -f FILE", Short: "say how the files differ from what is applied", Args: cobra.NoArgs, RunE: a.do(func(ctx context.Context, c *client.Client) error {
		specs, err := modelfile.Load(file, a.in)
		if err != nil {
			return err
		}
		diffs := []difference{}
		for _, spec := range specs {
			have, _, err := c.Model(ctx, spec.Name)
			switch {
			case errors.Is(err, fleet.NotFound):
				diffs = append(diffs, difference{Model: spec.Name, New: true})
			case err != nil:
				return err
			default:
				diffs = append(diffs, compare(have.Spec, spec))
			}
		}
		if a.json {
			return a.printJSON(diffs)
		}
		for _, d := range diffs {
			a.printDiff(d)
		}
		return nil
	})}
	fileFlag(c, &file)
	return c
}

// difference is how a file's model differs from what is applied, as diff --json prints it.
type difference struct {
	Model         string   `json:"model"`
	New           bool     `json:"new"`
	Changes       []change `json:"changes,omitempty"`
	NewGeneration bool     `json:"new_generation"` // its replicas would be replaced
}

// change is one field of a spec; a field that is not there is empty.
type change struct {
	Field string `json:"field"`
	From  string `json:"from"`
	To    string `json:"to"`
}

func compare(have, want fleet.ModelSpec) difference {
	was, is := flatten(have), flatten(want)
	d := difference{Model: want.Name, NewGeneration: have.RunHash() != want.RunHash()}
	for _, key := range sortedKeys(was, is) {
		if was[key] != is[key] {
			d.Changes = append(d.Changes, change{key, was[key], is[key]})
		}
	}
	return d
}

func (a *app) printDiff(d difference) {
	for _, c := range d.Changes {
		fmt.Fprintf(a.out, "%s: %s: %s -> %s\n", d.Model, c.Field, cell(c.From), cell(c.To))
	}
	switch {
	case d.New:
		fmt.Fprintf(a.out, "%s: new\n", d.Model)
	case len(d.Changes) == 0:
		fmt.Fprintf(a.out, "%s: unchanged\n", d.Model)
	case d.NewGeneration:
		fmt.Fprintf(a.out, "%s: its replicas would be replaced (a new generation)\n", d.Model)
	}
}

func (a *app) modelShow() *cobra.Command {
	return &cobra.Command{Use: "show NAME", Short: "one model, by name or alias, with what each field does", Args: cobra.ExactArgs(1),
		RunE: a.with(func(ctx context.Context, c *client.Client, args []string) error {
			m, _, err := c.Model(ctx, args[0])
			if err != nil || a.json {
				return orJSON(a, m, err)
			}
			a.printModel(m)
			return nil
		})}
}

// orJSON returns the error, or prints the value as JSON.
func orJSON(a *app, v any, err error) error {
	if err != nil {
		return err
	}
	return a.printJSON(v)
}

func (a *app) modelExplain() *cobra.Command {
	return &cobra.Command{Use: "explain NAME", Short: "why a model is not placed", Args: cobra.ExactArgs(1),
		RunE: a.with(func(ctx context.Context, c *client.Client, args []string) error {
			r, err := c.ExplainModel(ctx, args[0])
			if err != nil || a.json {
				return orJSON(a, r, err)
			}
			if r.Short == 0 {
				fmt.Fprintf(a.out, "%s has the replicas that it wants\n", args[0])
				return nil
			}
			fmt.Fprintln(a.out, refusal(r))
			for _, n := range r.Counts {
				fmt.Fprintf(a.out, "  %4d %s: %s\n", n.Nodes, map[bool]string{true: "node", false: "nodes"}[n.Nodes == 1], n.Reason)
			}
			return exit{code: exitNotPlaced}
		})}
}

func (a *app) modelScale() *cobra.Command {
	return &cobra.Command{Use: "scale NAME REPLICAS", Short: "set how many replicas a model runs (its min)", Args: cobra.ExactArgs(2),
		RunE: a.with(func(ctx context.Context, c *client.Client, args []string) error {
			n, err := strconv.Atoi(args[1])
			if err != nil || n < 0 {
				return usageError{fmt.Errorf("%q is not a number of replicas; write 0, 1, 2, …", args[1])}
			}
			ans, err := c.Scale(ctx, args[0], n)
			if err != nil || a.json {
				return orJSON(a, ans, err)
			}
			fmt.Fprintf(a.out, "%s: %s\n", args[0], verdict(ans))
			return nil
		})}
}

func (a *app) modelDelete() *cobra.Command {
	return &cobra.Command{Use: "delete NAME", Short: "delete a model; its replicas are drained", Args: cobra.ExactArgs(1),
		RunE: a.asking("delete the model %s", func(ctx context.Context, c *client.Client, args []string) error {
			ans, err := c.DeleteModel(ctx, args[0])
			if err != nil || a.json {
				return orJSON(a, ans, err)
			}
			fmt.Fprintf(a.out, "%s: deleted; its replicas are being drained\n", args[0])
			return nil
		})}
}
