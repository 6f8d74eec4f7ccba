package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"golang.org/x/term"

	"berth/admin/client"
	"berth/fleet"
	"berth/status/screen"
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
	if s := strings.NewReplacer("\n", " ", "\t", " ").Replace(harmless(fmt.Sprint(v))); s != "" {
		return s
	}
	return "-"
}

// harmless takes away what would do something to a terminal: names, reasons and errors are other people's.
func harmless(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return '\uFFFD'
		}
		return r
	}, text)
}

// age writes seconds for people; an unknown duration is "-".
func age(s float64) string { return screen.Age(s) }

// size writes an amount of memory for people, in GiB.
func size(b fleet.Bytes) string {
	if b%fleet.GiB == 0 {
		return b.String()
	}
	return fmt.Sprintf("%.1fGiB", float64(b)/float64(fleet.GiB))
}

// confirm asks before something destructive: on a terminal it asks the person, elsewhere it wants --yes.
func (a *app) confirm(ctx context.Context, format string, args ...any) error {
	if a.yes {
		return nil
	}
	what := fmt.Sprintf(format, args...)
	if !onTerminal(a.in) {
		return usageError{fmt.Errorf("%s needs --yes when nobody can be asked", what)}
	}
	fmt.Fprintf(a.err, "%s? [y/N] ", harmless(what))
	return a.answered(ctx)
}

// answered reads what the person says. Ctrl-C is an answer too; the program then ends with the read still waiting, for a terminal's cannot be ended.
func (a *app) answered(ctx context.Context) error {
	said := make(chan bool, 1)
	go func() {
		line, err := bufio.NewReader(a.in).ReadString('\n')
		line = strings.TrimSpace(line)
		said <- (err == nil || err == io.EOF) && (strings.EqualFold(line, "y") || strings.EqualFold(line, "yes"))
	}()
	yes := false
	select {
	case yes = <-said:
	case <-ctx.Done():
		fmt.Fprintln(a.err)
	}
	if !yes {
		return exit{exitError, "nothing was changed"}
	}
	return nil
}

// watch shows a view now and whenever it may have changed, until the context ends. On a terminal each showing is written over the one before.
func (a *app) watch(ctx context.Context, show func(context.Context, client.ReadOptions) (client.Meta, error)) error {
	var after fleet.Index
	out := a.out
	defer func() { a.out = out }()
	for first := true; ; first = false {
		var view bytes.Buffer
		a.out, a.screen = &view, out
		meta, err := show(ctx, client.ReadOptions{Index: after, Wait: waitFor(after), Consistency: a.consistency()})
		switch {
		case ctx.Err() != nil:
			return nil // interrupted: that is how watching ends
		case err != nil && lasting(err):
			return err
		case err != nil:
			fmt.Fprintln(a.err, "berthctl:", describe(err))
		case a.colour() && !a.json:
			view = *bytes.NewBuffer(overwrite(view.String(), first))
			fallthrough
		default:
			if _, err := out.Write(view.Bytes()); err != nil {
				return err // whoever reads it has gone
			}
		}
		after = meta.Index
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Second):
		}
	}
}

// lasting says that asking again would get the same: what is watched is not there, or the question is wrong.
func lasting(err error) bool {
	var e *fleet.Error
	return errors.As(err, &e) && e.Code.Status() >= 400 && e.Code.Status() < 500 && e.Code != fleet.Busy
}

// overwrite makes a view take the place of the one before without a moment of emptiness: each line clears what is left of the old one to its right,
// and the last clears what is below.
func overwrite(view string, first bool) []byte {
	start := "\x1b[H"
	if first {
		start = "\x1b[2J\x1b[H"
	}
	return []byte(start + strings.ReplaceAll(view, "\n", "\x1b[K\n") + "\x1b[J")
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

// onTerminal says whether a stream is one.
func onTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// shown is where the output ends up: while watching, it is collected first.
func (a *app) shown() io.Writer {
	if a.screen != nil {
		return a.screen
	}
	return a.out
}

// extent gives the columns and rows of the terminal that the output goes to; zeros when it goes to none.
func (a *app) extent() (width, height int) {
	if !onTerminal(a.shown()) {
		return 0, 0
	}
	width, height, err := term.GetSize(int(a.shown().(*os.File).Fd()))
	if err != nil {
		return 0, 0
	}
	return width, height
}

// colour says whether colours and motion may be used: on a terminal, unless NO_COLOR is set (no-color.org).
func (a *app) colour() bool {
	return onTerminal(a.shown()) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// positive is a flag's duration that must be more than nothing: with none no command could do anything.
type positive time.Duration

// Set implements pflag.Value.
func (p *positive) Set(text string) error {
	d, err := time.ParseDuration(text)
	if err == nil && d <= 0 {
		err = errors.New("it must be more than 0s")
	}
	if err == nil {
		*p = positive(d)
	}
	return err
}

func (p *positive) String() string { return time.Duration(*p).String() }

// Type implements pflag.Value.
func (p *positive) Type() string { return "duration" }
