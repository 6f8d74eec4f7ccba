package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/user"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"berth/admin/client"
	"berth/fleet"
	"berth/fleet/wire"
)

func (a *app) eventsCmd() *cobra.Command {
	var follow bool
	var since time.Duration
	filter := map[string]*string{"node": new(string), "model": new(string), "replica": new(string)}
	c := &cobra.Command{Use: "events", Short: "what changed and what was observed, with who, why and index", Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		c, err := a.client()
		if err != nil {
			return usageError{err}
		}
		if since < 0 {
			return usageError{fmt.Errorf("--since %s is in the future; write how long ago, for example 2h", since)}
		}
		q := url.Values{}
		for name, value := range filter {
			if *value != "" {
				q.Set(name, *value)
			}
		}
		if since > 0 {
			q.Set("since", fleet.Duration(since).String())
		}
		if follow {
			return a.followEvents(cmd.Context(), c, q)
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), a.timeout)
		defer cancel()
		return a.listEvents(ctx, c, q)
	}}
	c.Flags().BoolVarP(&follow, "follow", "f", false, "go on with what happens")
	c.Flags().DurationVar(&since, "since", 0, "only what is younger than this, for example 2h")
	c.Flags().StringVar(filter["node"], "node", "", "only of this node")
	c.Flags().StringVar(filter["model"], "model", "", "only of this model")
	c.Flags().StringVar(filter["replica"], "replica", "", "only of this replica")
	return c
}

func (a *app) listEvents(ctx context.Context, c *client.Client, q url.Values) error {
	list, _, err := c.Events(ctx, q)
	if err != nil {
		return err
	}
	return rows(a, list, "AT INDEX WHO OBJECT WHAT WHY", func(e wire.Event) []any {
		return []any{e.At.Std().Format("2006-01-02T15:04:05Z"), e.Index, e.Who, object(e), e.Text, why(e)}
	})
}

// followEvents prints one event a line for as long as the stream lives.
func (a *app) followEvents(ctx context.Context, c *client.Client, q url.Values) error {
	body, err := c.FollowEvents(ctx, q)
	if err != nil {
		return err
	}
	defer body.Close()
	sc := bufio.NewScanner(body)
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		data, ok := strings.CutPrefix(sc.Text(), "data: ")
		if !ok {
			continue
		}
		var e wire.Event
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			return fmt.Errorf("an event that this version does not read: %w", err)
		}
		if a.json {
			fmt.Fprintln(a.out, data)
			continue
		}
		fmt.Fprintf(a.out, "%s  %-8s %-14s %s: %s (%s)\n", e.At.Std().Format("15:04:05"), cell(e.Index), cell(e.Who), cell(object(e)), cell(e.Text), cell(why(e)))
	}
	if ctx.Err() != nil {
		return nil // interrupted: that is how following ends
	}
	return sc.Err()
}

// object names what an event is about, the most particular first.
func object(e wire.Event) string {
	switch {
	case e.Replica != "" && e.Model != "":
		return e.Replica + " of " + e.Model
	case e.Replica != "":
		return e.Replica
	case e.Model != "":
		return e.Model
	case e.Node != "":
		return e.Node
	}
	return e.Kind
}

// why is the reason that was given, else the command that did it, or that it was observed.
func why(e wire.Event) string {
	switch {
	case e.Why != "":
		return e.Why
	case e.Command != "":
		return e.Command
	}
	return "observed"
}

// whoami names the person at this machine for the events. Nobody has proved it, and no right hangs on it.
func whoami() string {
	name := os.Getenv("USER")
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if host, err := os.Hostname(); err == nil {
		name += "@" + host
	}
	return strings.Map(func(r rune) rune {
		if r <= ' ' || r > '~' || r == '(' || r == ')' {
			return '_'
		}
		return r
	}, name)
}
