package screen

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"berth/fleet/wire"
)

// The least screen that is laid out for; a smaller one gets clipped lines.
const (
	leastWidth  = 80
	leastHeight = 24
	mostBar     = 60 // characters of a usage bar, however wide the terminal
)

// Options say what is laid out for.
type Options struct {
	Width  int  // columns; 0: eighty
	Height int  // rows; 0: twenty-four
	Colour bool // ANSI colours may be used
}

// Render gives the lines of the screen, without line ends: never more than the height, and none wider than the width. Lists are cut to what fits,
// and say how much more there is and which command shows it.
func Render(s wire.Status, o Options) []string {
	l := layout{width: max(o.Width, leastWidth), height: max(o.Height, leastHeight) - 1, colour: o.Colour, gaps: true} // the prompt takes a row
	out, lists := l.fixed(s), l.lists(s)
	if all := append(out, lay(lists, everything(lists), false, l.gap())...); len(all) <= l.height {
		return all
	}
	if l.gaps = l.roomy(); !l.gaps {
		out = l.fixed(s)
	}
	return append(out, fit(lists, l.height-len(out), !l.roomy(), l.gap())...)
}

// layout is how lines are made.
type layout struct {
	width, height int
	colour, gaps  bool
}

// roomy says whether there is room for more than the least.
func (l layout) roomy() bool { return l.height > 30 }

// gap is what parts the sections of the screen.
func (l layout) gap() []string {
	if l.gaps {
		return []string{""}
	}
	return nil
}

func (l layout) fixed(s wire.Status) []string {
	return slices.Concat(l.banners(s), []string{l.verdict(s), l.origin(s)}, l.backup(s.Backup), l.gap(), l.counts(s), l.gap(), l.classes(s.GPUs), l.fabrics(s.Fabrics), l.silent(s.Silent))
}

// banners come first: they change how everything else is to be read.
func (l layout) banners(s wire.Status) []string {
	var out []string
	if s.Frozen != nil {
		out = append(out, l.line(bad, "FROZEN since %s by %s: %s", s.Frozen.At.Std().Format("2006-01-02 15:04Z"), orDash(s.Frozen.By), s.Frozen.Reason))
	}
	if s.Brake != nil {
		out = append(out, l.line(bad, "BRAKE: %s", *s.Brake))
	}
	if s.Leader == "" {
		out = append(out, l.line(bad, "NO LEADER: this is what %s knows; idle times are unknown", orDash(s.Peer)))
	}
	return out
}

// verdict is what the exit code says.
func (l layout) verdict(s wire.Status) string {
	var parts []string
	if n := len(s.Attention); n > 0 {
		parts = append(parts, fmt.Sprintf("%s a person", plural(n, "thing needs", "things need")))
	}
	if n := len(s.Unplaceable); n > 0 {
		parts = append(parts, plural(n, "model is", "models are")+" not placed")
	}
	switch {
	case len(s.Attention) > 0:
		return l.line(bad, "%s", strings.Join(parts, ", "))
	case len(parts) > 0:
		return l.line(warn, "%s", parts[0])
	}
	return l.line(good, "all well")
}

// origin says whose word this is and how old it is.
func (l layout) origin(s wire.Status) string {
	text := fmt.Sprintf("leader %s  index %s  from %s, %s old", orDash(s.Leader), s.Index, orDash(s.Peer), milliseconds(s.KnowledgeAgeMS))
	if s.ObservedAgeMS != 0 {
		text += ", observed " + milliseconds(s.ObservedAgeMS)
	}
	if rest := l.width - len(text) - 2; rest >= 8 {
		text += "  " + clip(s.Cluster, rest)
	}
	return l.line(plain, "%s", text)
}

// backup says how old the newest backup is, where any peer takes them.
func (l layout) backup(b *wire.Backup) []string {
	if b == nil {
		return nil
	}
	return []string{l.line(plain, "last backup %s ago, of index %s, by %s", Age(b.AgeSeconds), b.Index, clean(b.Peer))}
}

func milliseconds(ms int64) string {
	switch {
	case ms < 0:
		return "-"
	case ms < 1000:
		return fmt.Sprintf("%dms", ms)
	}
	return (time.Duration(ms) * time.Millisecond).Round(100 * time.Millisecond).String()
}

func (l layout) counts(s wire.Status) []string {
	n, r, m := s.Nodes, s.Replicas, s.Models
	row := func(name string, total int, cells ...string) string {
		text := fmt.Sprintf("%-9s %6d  ", name, total)
		for _, c := range cells {
			text += fmt.Sprintf("%-15s", c)
		}
		return l.line(plain, "%s", strings.TrimRight(text, " "))
	}
	return []string{
		row("NODES", n.Total, number(n.Ready, "ready"), number(n.Cordoned, "cordoned"), number(n.Draining, "draining"), number(n.Unreachable, "unreachable")),
		row("REPLICAS", r.Ready+r.Starting+r.Draining+r.Failed, number(r.Ready, "ready"), number(r.Starting, "starting"), number(r.Draining, "draining"), number(r.Failed, "failed")),
		row("MODELS", m.Total, number(m.Satisfied, "satisfied"), number(m.Short, "short"), number(len(s.Unplaceable), "not placed")),
	}
}

func number(n int, what string) string { return fmt.Sprintf("%d %s", n, what) }

func plural(n int, one, many string) string { return fmt.Sprintf("%d %s", n, word(n, one, many)) }

func word(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}
