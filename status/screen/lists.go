package screen

import (
	"fmt"

	"berth/fleet/wire"
)

// list is a part of the screen that is cut to what fits.
type list struct {
	style style
	title string
	items []item
	all   string // the command that shows every item
	made  layout
}

// item is one row of a list: what must be seen in one line, and all of it.
type item struct {
	brief string
	full  []string
}

func (i item) lines(brief bool) []string {
	if brief || i.full == nil {
		return []string{i.brief}
	}
	return i.full
}

func (l layout) lists(s wire.Status) []list {
	return []list{l.attention(s.Attention), l.unplaceable(s.Unplaceable), l.stoppable(s.IdleReplicas)}
}

func (l layout) attention(lines []string) list {
	out := list{style: bad, title: "NEEDS A PERSON", all: "berthctl status --json", made: l}
	for _, text := range lines {
		out.items = append(out.items, item{brief: l.line(plain, "  %s", text)})
	}
	return out
}

// unplaceable names the model, since when, the cause, and the nearest change that would help.
func (l layout) unplaceable(rows []wire.UnplaceableRow) list {
	out := list{style: warn, title: "NOT PLACED", all: "berthctl models", made: l}
	for _, u := range rows {
		row := func(model, since, text string) string {
			return l.line(plain, "  %-*s %-7s %s", l.name(), clip(clean(model), l.name()), since, text)
		}
		it := item{brief: row(u.Model, Age(u.SinceSeconds), u.Reason)}
		lines := wrap(u.Reason, l.width-l.name()-11)
		it.full = append(it.full, row(u.Model, Age(u.SinceSeconds), lines[0]))
		if u.WouldHelp != "" {
			lines = append(lines, wrap("would help: "+u.WouldHelp, l.width-l.name()-11)...)
		}
		for _, more := range lines[1:] {
			it.full = append(it.full, row("", "", more))
		}
		out.items = append(out.items, it)
	}
	return out
}

// name is the width of a model's name in a list.
func (l layout) name() int { return 20 + min(24, (l.width-leastWidth)/2) }

// stoppable lists what has gone unasked-for, the longest first: quiet is certain, idle is since the last use that anybody saw.
func (l layout) stoppable(rows []wire.IdleRow) list {
	gpus := 0
	for _, r := range rows {
		gpus += r.GPUs
	}
	out := list{
		style: bold, all: "berthctl idle", made: l,
		title: fmt.Sprintf("CAN BE STOPPED  %s, %s", plural(len(rows), "replica", "replicas"), plural(gpus, "GPU", "GPUs")),
	}
	id, name := 14, l.name() // an id is what one types to stop it, so it is never cut; after a restore it is longer, and names give way
	for _, r := range rows {
		id = max(id, len(r.ID))
	}
	name = max(name-(id-14), 6)
	for _, r := range rows {
		text := fmt.Sprintf("  %-*s %-*s %4d %-4s  quiet %7s  idle %7s", id, r.ID, name, clip(r.Model, name), r.GPUs, word(r.GPUs, "GPU", "GPUs"),
			Age(r.QuietSeconds), Age(r.IdleSeconds))
		if l.width >= 100 {
			text += fmt.Sprintf("  as of %4s ago", Age(r.AsOfSeconds))
		}
		out.items = append(out.items, item{brief: l.line(plain, "%s", text)})
	}
	return out
}

// fit lays lists out in so many lines. Each list that has something gets its title and one item; then they take turns until the screen is full. What
// did not fit is counted in the title.
func fit(lists []list, lines int, brief bool, gap []string) []string {
	shown := make([]int, len(lists))
	for i, l := range lists {
		shown[i] = min(1, len(l.items))
	}
	if len(lay(lists, shown, brief, gap)) > lines {
		gap, brief = nil, true
	}
	for grown := true; grown; {
		grown = false
		for i, l := range lists {
			if shown[i] == len(l.items) {
				continue
			}
			if shown[i]++; len(lay(lists, shown, brief, gap)) <= lines {
				grown = true
			} else {
				shown[i]--
			}
		}
	}
	return lay(lists, shown, brief, gap)
}

func everything(lists []list) []int {
	all := make([]int, len(lists))
	for i, l := range lists {
		all[i] = len(l.items)
	}
	return all
}

func lay(lists []list, shown []int, brief bool, gap []string) []string {
	var out []string
	for i, l := range lists {
		if shown[i] == 0 {
			continue
		}
		out = append(append(out, gap...), l.head(shown[i]))
		for _, it := range l.items[:shown[i]] {
			out = append(out, it.lines(brief)...)
		}
	}
	return out
}

func (l list) head(shown int) string {
	if left := len(l.items) - shown; left > 0 {
		return l.made.line(l.style, "%s  +%d more: %s", l.title, left, l.all)
	}
	return l.made.line(l.style, "%s", l.title)
}
