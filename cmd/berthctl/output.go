package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"golang.org/x/term"

	"berth/admin/client"
	"berth/fleet"
)

func (a *app) printJSON(v any) error {
	enc := json.NewEncoder(a.out)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// rows prints a table, or the rows as JSON.
func rows[T any](a *app, items []T, head string, row func(T) []any) error {
	if a.json {
		return a.printJSON(items)
	}
	w := tabwriter.NewWriter(a.out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, strings.ReplaceAll(head, " ", "\t"))
	for _, item := range items {
		cells := row(item)
		for i, c := range cells {
			if i > 0 {
				fmt.Fprint(w, "\t")
			}
			fmt.Fprint(w, cell(c))
		}
		fmt.Fprintln(w)
	}
	return w.Flush()
}

// cell writes one value; what is empty or unknown is "-".
func cell(v any) string {
	if s := fmt.Sprint(v); s != "" {
		return s
	}
	return "-"
}

// age writes seconds for people: two units at most, and "-" for an unknown duration.
func age(s float64) string {
	if s < 0 {
		return "-"
	}
	d := time.Duration(s * float64(time.Second))
	switch {
	case d < time.Second:
		return "0s"
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	default:
		return fmt.Sprintf("%dd%02dh", int(d.Hours())/24, int(d.Hours())%24)
	}
}

// size writes an amount of memory for people, in GiB.
func size(b fleet.Bytes) string {
	if b%fleet.GiB == 0 {
		return b.String()
	}
	return fmt.Sprintf("%.1fGiB", float64(b)/float64(fleet.GiB))
}

// confirm asks before something destructive: on a terminal it asks the person, elsewhere it wants --yes.
func (a *app) confirm(format string, args ...any) error {
	if a.yes {
		return nil
	}
	what := fmt.Sprintf(format, args...)
	f, ok := a.in.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return usageError{fmt.Errorf("%s needs --yes when nobody can be asked", what)}
	}
	fmt.Fprintf(a.err, "%s? [y/N] ", what)
	line, err := bufio.NewReader(a.in).ReadString('\n')
	if err != nil && err != io.EOF || !strings.EqualFold(strings.TrimSpace(line), "y") {
		return exit{exitError, "nothing was changed"}
	}
	return nil
}

// watch shows a view now and whenever it may have changed, until the context ends. On a terminal each showing replaces the one before.
func (a *app) watch(ctx context.Context, show func(context.Context, client.ReadOptions) (client.Meta, error)) error {
	var after fleet.Index
	for {
		if f, ok := a.out.(*os.File); ok && term.IsTerminal(int(f.Fd())) && !a.json {
			fmt.Fprint(a.out, "\x1b[H\x1b[2J")
		}
		meta, err := show(ctx, client.ReadOptions{Index: after, Wait: waitFor(after), Consistency: a.consistency()})
		if ctx.Err() != nil {
			return nil // interrupted: that is how watching ends
		}
		if err != nil {
			fmt.Fprintln(a.err, "berthctl:", describe(err))
		}
		after = meta.Index
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Second):
		}
	}
}

// waitFor lets the first reading answer at once and later ones block for a short time: ages on the screen go on without a change of state.
func waitFor(after fleet.Index) time.Duration {
	if after.IsZero() {
		return 0
	}
	return 2 * time.Second
}

func (a *app) consistency() string {
	if a.stale {
		return "stale"
	}
	return ""
}

// freshness notes on standard error when an answer is older than people expect.
func (a *app) freshness(m client.Meta) {
	switch {
	case m.KnownLeader == "":
		fmt.Fprintf(a.err, "note: no leader is known to %s; this is what that peer knows\n", m.Peer)
	case m.KnowledgeAge > 5*time.Second:
		fmt.Fprintf(a.err, "note: %s last heard of newer state %s ago\n", m.Peer, age(m.KnowledgeAge.Seconds()))
	}
}
