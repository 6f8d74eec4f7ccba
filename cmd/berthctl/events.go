package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"berth/admin/client"
	"berth/fleet/wire"
)

func (a *app) listEvents(ctx context.Context, c *client.Client, keep func(wire.Event) bool) error {
	all, _, err := c.Events(ctx, nil)
	if err != nil {
		return err
	}
	kept := []wire.Event{}
	for _, e := range all {
		if keep(e) {
			kept = append(kept, e)
		}
	}
	return rows(a, kept, "AT INDEX KIND OBJECT WHO TEXT", func(e wire.Event) []any {
		return []any{e.At.Std().Format("2006-01-02T15:04:05Z"), e.Index, e.Kind, object(e), e.Who, e.Text}
	})
}

// followEvents prints one event a line for as long as the stream lives.
func (a *app) followEvents(ctx context.Context, c *client.Client, keep func(wire.Event) bool) error {
	body, err := c.FollowEvents(ctx, 0)
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
		switch {
		case !keep(e):
		case a.json:
			fmt.Fprintln(a.out, data)
		default:
			fmt.Fprintf(a.out, "%s  %-8s %-10s %s: %s\n", e.At.Std().Format("15:04:05"), cell(e.Index), e.Kind, cell(object(e)), e.Text)
		}
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
	}
	return e.Node
}
